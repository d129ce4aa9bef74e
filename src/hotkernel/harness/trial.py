"""One verify's processes: the oracle, the plan, pairs of workers and the batches they run; concludes nothing."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.harness import environment
from hotkernel.harness.batches import (
    Batches,
    CannotQueue,
    CardBatches,
    Checks,
    HostBatches,
    Stamped,
    Unreadable,
    refuse_unreadable,
)
from hotkernel.harness.links import OracleLink, SideFault, WorkerLink
from hotkernel.harness.plan import VALUES_PER_PAIR, Wanted, draw_calls, make_plan, top_calls
from hotkernel.harness.zygote import Fork
from hotkernel.schema.verdict import Batch, Fault, Fill, Mode, Plan, Side, Stage, VerdictKind
from hotkernel_contract import protocol

BUILD_TIMEOUT_S = 600.0  # nvcc takes a minute for one file, max-autotune several
CACHE_LIMIT_BYTES = 2 << 30
EARLY_PAIRS = 3
HANGS_S = 2.0  # beyond what a batch may take: a side that is still out when the verify's time ends, hangs
FILLS = 9  # readings of the fill at each count
REPEATS = {Mode.BATCHES: 3, Mode.LATENCY: 3, Mode.CPU: 6}  # of a void value; cores are shared more often than cards
WARM_S = 1.5  # at most; less where a pair takes fewer values
WARM_AGREE = {Mode.BATCHES: 0.005, Mode.LATENCY: 0.02, Mode.CPU: 0.03}

Moment = Callable[[], tuple[int | None, int | None]]  # SM clock in MHz and the mask of throttle reasons, now


@dataclass(frozen=True)
class SideSource:
    """What one side runs: a file, the names its function may have, and the folder of its compile caches."""

    path: Path
    names: tuple[str, ...]
    caches: Path


@dataclass(frozen=True)
class Setting:
    """Everything about a verify that is not measured."""

    baseline_file: Path
    sources: Mapping[Side, SideSource]
    environment: Mapping[str, str]
    scratch: Path
    oracle_caches: Path
    device: str  # cuda, cpu or "" for the target's choice
    visible: str  # for CUDA_VISIBLE_DEVICES
    cores: tuple[int, ...]
    deadline: float  # of time.monotonic
    wanted: Wanted = field(default_factory=Wanted)


@dataclass
class PairOfWorkers:
    """The processes of one pair, one a side."""

    stage: Stage
    number: int
    workers: dict[Side, WorkerLink]
    alone: list[Batch] = field(default_factory=list)  # of the baseline, before a line of the candidate was loaded


class Trial:
    """Opens the oracle, then starts pairs and measures them; `close` ends every process."""

    def __init__(self, fork: Fork, setting: Setting, moment: Moment, say: Callable[[str], None]) -> None:
        self.fork, self.setting, self.moment, self.say = fork, setting, moment, say
        self.began = time.monotonic()
        self.chance = random.SystemRandom()
        self.checks = Checks()
        self.fills: list[Fill] = []
        self.call_us: dict[str, float] = {}
        self.copies = False
        self.mode = Mode.CPU
        self.alive: list[WorkerLink] = []
        self.early: list[dict[Side, WorkerLink]] = []  # forked ahead, not in use yet
        self.seconds: dict[str, float] = {}
        self.started = 0
        self.held: int | None = None  # what every worker so far was confined by, in bits of protocol.CONFINEMENT

    # Before any pair --------------------------------------------------------------------------------------------------

    def open(self) -> dict[str, Any]:
        """Load the target in the oracle; what it is."""
        with self.phase("oracle"):
            folder = self.setting.scratch / "oracle"
            chosen = environment.private(self.setting.environment, folder, self.setting.oracle_caches, self.setting.visible)
            self.oracle = OracleLink(self.fork, chosen, folder / "log", self._left())
            self.oracle.tell("load", baseline=str(self.setting.baseline_file), device=self.setting.device,
                             threads=len(self.setting.cores))
            self._start_early()
            self.target = self.oracle.answer("load")
            if self.target["device"] != "cuda":
                self._end_alive()
        self.mode = Mode.BATCHES if self.target["device"] == "cuda" else Mode.CPU
        self.copies = bool(self.target["reuses_output"])
        return self.target

    def _start_early(self) -> None:
        """On a card: fork the first pairs' workers while the oracle loads, where there is nothing left to compile."""
        sides = list(self.setting.sources)
        if self.setting.visible and all((self.setting.sources[side].caches / "built").exists() for side in sides):
            self.early = [{side: self._fork_worker(side, "cuda") for side in sides} for _ in range(EARLY_PAIRS)]

    def _end_alive(self) -> None:
        for worker in self.alive:
            worker.channel.close()
        self.fork.end([worker.pid for worker in self.alive])
        self.alive.clear()
        self.early.clear()

    def prepare(self) -> Plan:
        """Make the plan, the slots and the pool; measure the fill."""
        with self.phase("slots"):
            target = self.target
            self.plan = make_plan(self.mode, target["baseline_us"], target["entry_bytes"], target["free_bytes"],
                                  self.setting.wanted)
            self.slots = top_calls(self.plan.n2)
            self.layout = self.oracle.ask("allocate", slots=self.slots, copies=self.copies)
            self.files = self.oracle.files
            self.oracle.ask("draw", size=self._pool_size())
            self.oracle.ask("warm", pick_count=min(self.slots, self._pool_size()))
            self.batches: Batches
            if self.mode is Mode.CPU:
                self.batches = HostBatches(self.oracle, self.checks, self.began, len(self.setting.cores))
            else:
                self.batches = CardBatches(self.oracle, self.checks, self.began, is_open=self.mode is Mode.LATENCY)
                self._measure_fills(self.batches)
        return self.plan

    def _pool_size(self) -> int:
        return self.plan.n1 + int(self.plan.n1 * 0.2) + self.slots

    def _measure_fills(self, batches: CardBatches) -> None:
        """F at several counts, from random entries into random slots as in a batch: in order, memory is a little faster."""
        self.fills.clear()
        for calls in sorted({self.plan.n1, self.plan.n1 + int(self.plan.n1 * 0.2), self.plan.n2, self.slots}):
            for at in range(FILLS + 1):
                picks = self.chance.sample(range(self._pool_size()), calls)
                span_us = batches.fill_alone(picks, self.chance.sample(range(self.slots), calls))
                if at:  # the first of a count warms up
                    self.fills.append(Fill(calls, span_us))

    # Pairs ------------------------------------------------------------------------------------------------------------

    def build(self, sides: Sequence[Side]) -> None:
        """Compile what has not been compiled: a worker of each side runs once and ends, before any secret exists."""
        todo = [side for side in sides if not (self.setting.sources[side].caches / "built").exists()]
        with self.phase("build"):
            for side in todo:
                self.say(f"building the {side}")
            pair = PairOfWorkers(Stage.LOOK, -1, {side: self._fork_worker(side, self.target["device"]) for side in todo})
            self._ready([pair], todo)
            self.end([pair])
            for side in todo:
                caches = self.setting.sources[side].caches
                size = sum(file.stat().st_size for file in caches.rglob("*") if file.is_file())
                if size > CACHE_LIMIT_BYTES:
                    shutil.rmtree(caches, ignore_errors=True)
                    raise ToolError(f"the {side}'s compile caches take {size >> 20} MiB", fix="let it compile less than 2 GiB")
                (caches / "built").touch()

    def start(self, stage: Stage, numbers: Sequence[int], sides: Sequence[Side],
              before_candidates: Callable[[], None]) -> list[PairOfWorkers]:
        """Start several pairs at once and wait until all their workers are ready; raises SideFault.

        A confirmation's baselines are loaded, checked and measured alone first, while no line of a candidate is loaded:
        whatever a candidate does to them from then on shows.
        """
        with self.phase("workers"):
            pairs = [PairOfWorkers(stage, number, self._workers(sides)) for number in numbers]
            self.fork.sweep()  # what the pairs before left behind, or a build: no process of theirs is there any longer
        rest = list(sides)
        if stage is Stage.CONFIRMATION:
            rest.remove(Side.BASELINE)
            self.fork.settle()
            self._ready(pairs, [Side.BASELINE])
            before_candidates()
            for pair in pairs:
                pair.alone = self._alone(pair)
        self._ready(pairs, rest)
        return pairs

    def _alone(self, pair: PairOfWorkers) -> list[Batch]:
        """Values of the baseline while no other side has begun; the measure of what another's presence does to it."""
        with self.phase("alone"):
            self._warm(pair, [Side.BASELINE])
            alone = replace(pair, stage=Stage.ALONE)
            return self._repeated(max(2, self.plan.values_per_pair // 2), lambda value: self._turn(alone, Side.BASELINE, value))

    def _workers(self, sides: Sequence[Side]) -> dict[Side, WorkerLink]:
        return self.early.pop() if self.early else {side: self._fork_worker(side, self.target["device"]) for side in sides}

    def _fork_worker(self, side: Side, device: str) -> WorkerLink:
        source = self.setting.sources[side]
        self.started += 1
        folder = self.setting.scratch / f"{side}-{self.started}"
        chosen = environment.private(self.setting.environment, folder, source.caches, self.setting.visible)
        spec = {
            "source": str(source.path), "names": list(source.names), "scratch": str(folder), "device": device,
            "threads": len(self.setting.cores), "cores": list(self.setting.cores),
        }
        worker = WorkerLink(self.fork, side, chosen, spec, folder / "log")
        worker.until = self.setting.deadline
        self.alive.append(worker)
        return worker

    def _ready(self, pairs: Sequence[PairOfWorkers], sides: Sequence[Side]) -> None:
        """Have these sides load their code and call it, all at once; wait until they have."""
        deadline = time.monotonic() + min(BUILD_TIMEOUT_S, self._left())
        workers = [pair.workers[side] for pair in pairs for side in sides]
        for worker in workers:
            held = worker.expect(protocol.HELLO, deadline).number  # trusted: no line of the candidate is loaded yet
            self.held = held if self.held is None else self.held & held
            worker.send(protocol.pack(protocol.MAP))
            worker.send_message(self.layout, tuple(self.files))
        for worker in workers:
            self.batches.ready(worker, worker.expect(protocol.READY, deadline).body[: protocol.HANDLE_BYTES])

    def end(self, pairs: Sequence[PairOfWorkers]) -> None:
        """End the processes of some pairs, all at once: a context's end takes a tenth of a second."""
        with self.phase("ends"):
            workers = [worker for pair in pairs for worker in pair.workers.values()]
            for worker in workers:
                self.batches.forget(worker)
                worker.channel.close()
                self.alive.remove(worker)
            self.fork.end([worker.pid for worker in workers], wait=False)

    # Batches ----------------------------------------------------------------------------------------------------------

    def measure(self, pair: PairOfWorkers) -> list[Batch]:
        """Warm the pair up, then all its values; raises SideFault, CannotQueue or Unreadable."""
        with self.phase("warm-up"):
            self._warm(pair, list(pair.workers))
        order = [side for side in (Side.INCUMBENT, Side.CANDIDATE, Side.BASELINE) if side in pair.workers]
        if self.chance.random() < 0.5:  # either way the candidate is beside the baseline, which takes its inputs after it
            order.reverse()
        with self.phase("values"):
            return self._repeated(self.plan.values_per_pair, lambda value: self._value(pair, value, order[:: 1 - value % 2 * 2]))

    def _repeated(self, values: int, take: Callable[[int], list[Batch]]) -> list[Batch]:
        """So many values, each repeated a few times where it is void."""
        batches: list[Batch] = []
        for value in range(values):
            for _ in range(REPEATS[self.mode]):
                self.check_time()
                taken = take(value)
                batches += taken
                if all(batch.void is None for batch in taken):
                    break
        return batches

    def _value(self, pair: PairOfWorkers, value: int, order: Sequence[Side]) -> list[Batch]:
        """One value of each side."""
        batches = [batch for side in order for batch in self._turn(pair, side, value)]
        if self.fork.sweep():
            raise SideFault(Fault(VerdictKind.INVALID, "escaped_process", "a side started a process that left its tree, "
                                  "where it would run beside the other side's work; it was ended"))
        return batches

    def _turn(self, pair: PairOfWorkers, side: Side, value: int) -> list[Batch]:
        """One side's two batches of a value, on inputs that no other side has seen.

        The baseline, which is trusted, takes what is drawn already: what the side before it had.
        """
        if side is not Side.BASELINE:
            self._draw(draw_calls(self.plan, self.chance))
        entries = self.chance.sample(range(sum(self.drawn)), sum(self.drawn))
        picks = {self.drawn[0]: entries[: self.drawn[0]], self.drawn[1]: entries[self.drawn[0]:]}
        batches = []
        for calls in self.chance.sample(self.drawn, 2):
            stamped = self._batch(pair.workers[side], picks[calls])
            with self.phase("driver"):
                clock, mask = self.moment()
            batches.append(Batch(side, pair.stage, pair.number, value, calls, stamped.span_us, stamped.at_s,
                                 stamped.check_us, clock, mask, stamped.fill_us, stamped.void))
        return batches

    def _draw(self, calls: tuple[int, int]) -> None:
        """New secrets, for batches of so many calls."""
        with self.phase("draw"):
            self.oracle.ask("draw", size=sum(calls))
        self.drawn = calls

    def _batch(self, worker: WorkerLink, picks: list[int]) -> Stamped:
        order = self.chance.sample(range(self.slots), len(picks))
        expected_us, began = len(picks) * self.target["baseline_us"], time.monotonic()
        try:
            return self.batches.run(worker, picks, order, expected_us)
        except SideFault as fault:
            if fault.fault.rule == "timeout" and time.monotonic() - began < HANGS_S + 50 * expected_us / 1e6:
                self.check_time()  # the verify's time was over, and the side is not to blame
            raise

    def _warm(self, pair: PairOfWorkers, sides: Sequence[Side]) -> None:
        """Until two values of a side agree, for each side; a batch of the most calls first, so that all memory is known."""
        everything = list(range(self.slots))
        self._draw((self._pool_size() - self.slots, self.slots))
        workers = [pair.workers[side] for side in sides]
        for worker in workers:
            if isinstance(self.batches, CardBatches):
                self.batches.learn_gate(worker, everything, everything, self.slots * self.target["baseline_us"])
        for worker in workers:
            last, until = 0.0, time.monotonic() + WARM_S * self.plan.values_per_pair / VALUES_PER_PAIR
            while time.monotonic() < until:
                self.check_time()
                spans = [self._batch(worker, everything[: count]) for count in (self.plan.n1, self.plan.n2)]
                if any(span.void for span in spans):
                    continue
                us = spans[1].span_us - spans[0].span_us
                if abs(us - last) <= WARM_AGREE[self.mode] * abs(us):
                    break
                last = us

    def measure_calls(self, pair: PairOfWorkers) -> None:
        """CUDA: the time of a call with its launches, from open batches; a second figure that decides nothing."""
        if not isinstance(self.batches, CardBatches):
            return
        counts = (self.plan.n1, self.plan.n2)
        everything = list(range(self.slots))
        for side, worker in pair.workers.items():
            slopes = []
            for _ in range(3):
                spans = [self.batches.attempt(worker, everything[:n], everything[:n], n * self.target["baseline_us"], 0.0)
                         for n in counts]
                slopes.append((spans[1].span_us - spans[0].span_us) / (counts[1] - counts[0]))
            self.call_us[side] = sorted(slopes)[1]

    # The rest ---------------------------------------------------------------------------------------------------------

    def fall_back(self, error: CannotQueue | Unreadable) -> str:
        """Change the way of measuring for both sides, and say why; what was measured before does not count."""
        self._end_alive()
        if isinstance(error, CannotQueue):
            self.mode = Mode.LATENCY
            why = "a side synchronises inside its call, so both are timed with their launches (latency batches)"
        elif self.copies:
            raise refuse_unreadable(error)
        else:
            self.copies = True
            why = f"outputs are copied out inside the interval, on both sides alike ({error})"
        self.oracle.end()
        self.open_again()
        self.plan = replace(self.plan, notes=(*self.plan.notes, why))
        return why

    def open_again(self) -> None:
        """A fresh oracle for the changed way; the mode and the copies stay as they were set."""
        mode, copies = self.mode, self.copies
        self.open()
        self.mode, self.copies = mode, copies
        self.prepare()

    def close(self) -> None:
        """End everything; the connection's end would do it too."""
        for worker in self.alive:
            worker.channel.close()
        self.fork.connection.close()

    def check_time(self) -> None:
        if self._left() <= 0:
            raise ToolError("the verify ran out of its timeout", fix="give a larger timeout, or fewer pairs with n")

    def _left(self) -> float:
        return self.setting.deadline - time.monotonic()

    def phase(self, name: str) -> _Phase:
        """Adds the time of a `with` block to `seconds`."""
        return _Phase(self.seconds, name)


@dataclass
class _Phase:
    seconds: dict[str, float]
    name: str

    def __enter__(self) -> None:
        self.started = time.monotonic()

    def __exit__(self, *error: object) -> None:
        self.seconds[self.name] = self.seconds.get(self.name, 0.0) + time.monotonic() - self.started


__all__ = ["PairOfWorkers", "Setting", "SideFault", "SideSource", "Trial"]
