"""One verify's processes: the oracle, the plan, pairs of workers and the batches they run; concludes nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
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
from hotkernel.harness.crew import Crew, Setting
from hotkernel.harness.links import OracleLink, SideFault, WorkerLink
from hotkernel.harness.plan import VALUES_PER_PAIR, draw_calls, make_plan, top_calls
from hotkernel.harness.zygote import Fork
from hotkernel.schema.verdict import Batch, Fault, Fill, Mode, Plan, Side, Stage, VerdictKind

HANGS_S = 2.0  # beyond what a batch may take: a side that is still out when the verify's time ends, hangs
FILLS = 9  # readings of the fill at each count
REPEATS = {Mode.BATCHES: 3, Mode.LATENCY: 3, Mode.CPU: 6}  # of a void value; cores are shared more often than cards
WARM_S = 1.5  # at most; less where a pair takes fewer values
WARM_AGREE = {Mode.BATCHES: 0.005, Mode.LATENCY: 0.02, Mode.CPU: 0.03}

Moment = Callable[[], tuple[int | None, int | None]]  # SM clock in MHz and the mask of throttle reasons, now


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
        self.crew = Crew(fork, setting)
        self.seconds: dict[str, float] = {}

    # Before any pair --------------------------------------------------------------------------------------------------

    def open(self) -> dict[str, Any]:
        """Load the target in the oracle; what it is."""
        with self.phase("oracle"):
            folder = self.setting.scratch / "oracle"
            chosen = environment.private(self.setting.environment, folder, self.setting.oracle_caches, self.setting.visible)
            self.oracle = OracleLink(self.fork, chosen, folder / "log", self.setting.left_s)
            self.oracle.tell("load", baseline=str(self.setting.baseline_file), device=self.setting.device,
                             threads=len(self.setting.cores))
            loaded = self.oracle.answer("load")
            if loaded["device"] == "cuda":
                self.crew.start_early("cuda")
            self.target = {**self.oracle.ask("describe"), **loaded}
        self.mode = Mode.BATCHES if self.target["device"] == "cuda" else Mode.CPU
        self.copies = bool(self.target["reuses_output"])
        return self.target

    def prepare(self) -> Plan:
        """Make the plan, the slots and the pool; prove the target, build what is not built, measure the fill."""
        with self.phase("slots"):
            target = self.target
            self.plan = make_plan(self.mode, target["baseline_us"], target["entry_bytes"], target["free_bytes"],
                                  self.setting.wanted)
            self.slots = top_calls(self.plan.n2)
            self.layout = self.oracle.ask("allocate", slots=self.slots, copies=self.copies)
            self.files = self.oracle.files
        self.batches: Batches
        if self.mode is Mode.CPU:
            self.batches = HostBatches(self.oracle, self.checks, self.began, len(self.setting.cores))
        else:
            self.batches = CardBatches(self.oracle, self.checks, self.began, is_open=self.mode is Mode.LATENCY)
        self._build()
        with self.phase("pool"):
            self.oracle.ask("draw", size=self._pool_size())
            self.oracle.ask("warm", pick_count=min(self.slots, self._pool_size()))
        if isinstance(self.batches, CardBatches):
            self.crew.greet_early()
            self.fork.settle()
            with self.phase("fills"):
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

    def _build(self) -> None:
        """Compile what has not been compiled: a worker of each side runs once and ends, before any secret exists.

        The oracle proves its target meanwhile, for that needs no quiet.
        """
        self.oracle.tell("prove")
        todo = self.crew.unbuilt()
        with self.phase("build"):
            for side in todo:
                self.say(f"building the {side}")
            workers = [self.crew.builder(side, self.target["device"]) for side in todo]
            self.crew.ask_to_load(workers, self.layout, self.files)
            self.crew.wait_until_ready(workers)
            self.oracle.answer("prove")
            self.crew.end(workers)
            for side in todo:
                self.crew.mark_built(side)

    def start(self, stage: Stage, numbers: Sequence[int], sides: Sequence[Side],
              before_candidates: Callable[[], None]) -> list[PairOfWorkers]:
        """Start several pairs at once and wait until all their workers are ready; raises SideFault.

        A confirmation's baselines are loaded, checked and measured alone first, while no line of a candidate is loaded:
        whatever a candidate does to them from then on shows.
        """
        with self.phase("workers"):
            pairs = [PairOfWorkers(stage, number, self.crew.one_a_side(sides, self.target["device"]))
                     for number in numbers]
            self.fork.sweep()  # what the pairs before left behind, or a build: no process of theirs is there any longer
            self.crew.greet([worker for pair in pairs for worker in pair.workers.values()])
        rest = list(sides)
        if stage is Stage.CONFIRMATION:
            rest.remove(Side.BASELINE)
            self.fork.settle()
            self._load(pairs, [Side.BASELINE])
            before_candidates()
            for pair in pairs:
                pair.alone = self._alone(pair)
        self._load(pairs, rest)
        return pairs

    def _alone(self, pair: PairOfWorkers) -> list[Batch]:
        """Values of the baseline while no other side has begun; the measure of what another's presence does to it."""
        with self.phase("alone"):
            self._warm(pair, [Side.BASELINE])
            alone = replace(pair, stage=Stage.ALONE)
            return self._repeated(max(2, self.plan.values_per_pair // 2), lambda value: self._turn(alone, Side.BASELINE, value))

    def _load(self, pairs: Sequence[PairOfWorkers], sides: Sequence[Side]) -> None:
        """Have these sides load their code and call it, all at once; wait until they have; raises SideFault."""
        with self.phase("loading"):
            workers = [pair.workers[side] for pair in pairs for side in sides]
            self.crew.ask_to_load(workers, self.layout, self.files)
            for worker, handle in zip(workers, self.crew.wait_until_ready(workers), strict=True):
                self.batches.ready(worker, handle)

    def end(self, pairs: Sequence[PairOfWorkers]) -> None:
        """End the processes of some pairs."""
        with self.phase("ends"):
            workers = [worker for pair in pairs for worker in pair.workers.values()]
            for worker in workers:
                self.batches.forget(worker)
            self.crew.end(workers)

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
            seen: list[float] = []
            until = time.monotonic() + WARM_S * self.plan.values_per_pair / VALUES_PER_PAIR
            while time.monotonic() < until:
                self.check_time()
                spans = [self._batch(worker, everything[: count]) for count in (self.plan.n1, self.plan.n2)]
                if any(span.void for span in spans):
                    continue
                us = spans[1].span_us - spans[0].span_us
                if any(abs(us - other) <= WARM_AGREE[self.mode] * abs(us) for other in seen):
                    break
                seen.append(us)

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
        self.crew.end_all()
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
        for worker in self.crew.alive:
            worker.channel.close()
        self.fork.connection.close()

    def check_time(self) -> None:
        if self.setting.left_s <= 0:
            raise ToolError("the verify ran out of its timeout", fix="give a larger timeout, or fewer pairs with n")

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


__all__ = ["PairOfWorkers", "SideFault", "Trial"]
