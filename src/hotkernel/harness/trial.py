"""One verify's processes: the oracle, the plan, pairs of workers and the batches they run; concludes nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.harness import environment
from hotkernel.harness.asides import Asides
from hotkernel.harness.batches import Batches, CannotQueue, Checks, Unreadable
from hotkernel.harness.card_batches import CardBatches
from hotkernel.harness.crew import Crew, PairOfWorkers, Setting
from hotkernel.harness.host_batches import HostBatches
from hotkernel.harness.links import OracleLink
from hotkernel.harness.phases import Phases
from hotkernel.harness.plan import BY_REFEREES_CLOCK, FEW_CALLS, MAX_CALLS, SHORT, are_few_enough, make_plan, top_calls
from hotkernel.harness.values import Drawing, Moment, Values
from hotkernel.harness.zygote import Fork
from hotkernel.schema.verdict import Fill, Mode, Plan, Side, Stage

BUILD_SLOTS = 2  # a worker calls its function on so many before it is ready
FILLS = 9  # readings of the fill at each count


class Trial:
    """Opens the oracle, then starts pairs and measures them; `close` ends every process."""

    def __init__(self, fork: Fork, setting: Setting, moment: Moment, say: Callable[[str], None]) -> None:
        self.fork, self.setting, self.moment, self.say = fork, setting, moment, say
        self.began = time.monotonic()
        self.chance = random.SystemRandom()
        self.checks = Checks()
        self.fills: list[Fill] = []
        self.asides = Asides()
        self.setup_ms: dict[str, list[float]] = {}  # of each side that prepares its static inputs, every process's
        self.limited: dict[str, str] = {}  # kinds of other inputs that the baseline itself gets wrong, and how
        self.copies = False
        self.copy_us: float | None = None  # about what copying a call's outputs out costs
        self.mode = Mode.CPU
        self.most_calls = MAX_CALLS  # of a batch
        self.changes: list[str] = []  # of the way of measuring, and why
        self.crew = Crew(fork, setting)
        self.phases = Phases()

    # Before any pair --------------------------------------------------------------------------------------------------

    def open(self, meanwhile: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """Load the target in the oracle; what it is. `meanwhile` is done while the oracle loads."""
        with self.phases.of("oracle"):
            folder = self.setting.scratch / "oracle"
            chosen = environment.private(self.setting.environment, folder, self.setting.oracle_caches, self.setting.visible)
            chosen["CUDA_DEVICE_MAX_CONNECTIONS"] = "1"  # it has one stream; its context takes half as long to make
            self.oracle = OracleLink(self.fork, chosen, folder / "log", self.setting.left_s)
            self.oracle.tell("load", baseline=str(self.setting.baseline_file), device=self.setting.device,
                             threads=len(self.setting.cores), case=self.setting.case)
            if self.setting.visible:  # the target is for the card, most likely: a builder's context is made beside the oracle's
                self.crew.start_builders("cuda")
            meanwhile()
            loaded = self.oracle.answer("load")
            if loaded["device"] == "cuda":
                self.crew.start_early("cuda")
            else:
                self.crew.end_all()
            self.target = {**self.oracle.ask("describe"), **loaded}
        self.mode = Mode.CPU if self.target["device"] != "cuda" else Mode.HOST if self.target["cannot_share"] else Mode.BATCHES
        self.copies = bool(self.target["reuses_output"]) or self.mode is Mode.HOST
        self.checks.returned = self.target["returned"]
        return self.target

    def prepare(self) -> Plan:
        """Build what is not built and prove the target; then, in quiet, make the plan, the slots and the pool, and measure the
        fill."""
        self.batches: Batches
        if self.mode in BY_REFEREES_CLOCK:
            self.batches = HostBatches(self.oracle, self.checks, self.began, len(self.setting.cores))
        else:
            self.batches = CardBatches(self.oracle, self.checks, self.began, is_open=self.mode is Mode.LATENCY)
        self._build()
        if self.mode is not Mode.CPU:
            with self.phases.of("contexts"):
                self.crew.greet_early()
                self.fork.settle()
            self.target |= self.oracle.ask("time")
        target = self.target
        self.plan = make_plan(self.mode, target["baseline_us"], target["entry_bytes"], target["free_bytes"], self.setting.wanted,
                              is_shared=target["is_shared"], most=self.most_calls)
        if self.room > 1:
            why = f"the tolerance by element is {self.room:.2f} times the default: room for the baseline's own rounding"
            self.plan = replace(self.plan, notes=(*self.plan.notes, why))
        if self.mode is Mode.HOST:
            why = (f"processes cannot share the card's memory here ({target['cannot_share']}), so inputs and outputs are copied "
                   "through the host inside the interval, on both sides alike")
            self.plan = replace(self.plan, notes=(*self.plan.notes, why))
        self.slots = top_calls(self.plan.n2)
        self._allocate(self.slots)
        if self.copies and self.mode is not Mode.HOST:
            self.copy_us = float(self.oracle.ask("copy")["copy_us"])
        with self.phases.of("pool"):
            drawn = Drawing(self.oracle.ask("draw", size=self._pool_size())["number"], (self._pool_size(),))
            self.oracle.ask("warm", pick_count=min(self.slots, self._pool_size()))
        if isinstance(self.batches, CardBatches):
            with self.phases.of("fills"):
                self._measure_fills(self.batches)
        self.values = Values(self.setting, self.fork, self.oracle, self.batches, self.plan, target["baseline_us"],
                             self.slots, self.moment, self.phases, self.rounds, self.limited, drawn)
        return self.plan

    def _allocate(self, slots: int) -> None:
        with self.phases.of("slots"):
            self.layout = self.oracle.ask("allocate", slots=slots, copies=self.copies, on_host=self.mode is Mode.HOST)
            self.files = self.oracle.files

    def _pool_size(self) -> int:
        return self.plan.n1 + self.slots

    def _measure_fills(self, batches: CardBatches) -> None:
        """F at several counts, from random entries into random slots as in a batch: in order, memory is a little faster."""
        self.fills.clear()
        for calls in sorted({self.plan.n1, self.plan.n2, self.slots}):
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
        todo = self.crew.unbuilt()
        workers = [self.crew.builder(side, self.target["device"]) for side in todo]
        if todo:
            self._allocate(BUILD_SLOTS)
        self.oracle.tell("prove")
        with self.phases.of("build"):
            for side in todo:
                self.say(f"building the {side}")
            if todo:
                self.crew.ask_to_load(workers, self.layout, self.files)
            self.crew.wait_until_ready(workers)
            self._take_proof(self.oracle.answer("prove"))
            self.crew.end(workers)
            for side in todo:
                self.crew.mark_built(side)

    def _take_proof(self, proved: dict[str, Any]) -> None:
        self.rounds: list[str] = self.chance.sample(proved["rounds"], len(proved["rounds"]))
        self.limited |= proved["limited_rounds"]
        self.room = float(proved["room"])

    def start(self, stage: Stage, numbers: Sequence[int], sides: Sequence[Side],
              before_candidates: Callable[[], None]) -> list[PairOfWorkers]:
        """Start several pairs at once and wait until all their workers are ready; raises SideFault.

        A confirmation's baselines are loaded, checked and measured alone first, while no line of a candidate is loaded:
        whatever a candidate does to them from then on shows.
        """
        with self.phases.of("workers"):
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
                pair.alone = self.values.of_baseline_alone(pair)
        self._load(pairs, rest)
        return pairs

    def _load(self, pairs: Sequence[PairOfWorkers], sides: Sequence[Side]) -> None:
        """Have these sides load their code and call it, all at once; wait until they have; raises SideFault."""
        with self.phases.of("loading"):
            workers = [pair.workers[side] for pair in pairs for side in sides]
            self.crew.ask_to_load(workers, self.layout, self.files)
            for worker, handle in zip(workers, self.crew.wait_until_ready(workers), strict=True):
                self.batches.ready(worker, handle)
                if worker.setup_s is not None:
                    self.setup_ms.setdefault(worker.side, []).append(1e3 * worker.setup_s)

    def end(self, pairs: Sequence[PairOfWorkers]) -> None:
        """End the processes of some pairs."""
        with self.phases.of("ends"):
            workers = [worker for pair in pairs for worker in pair.workers.values()]
            for worker in workers:
                self.batches.forget(worker)
            self.crew.end(workers)

    # The rest ---------------------------------------------------------------------------------------------------------

    def fall_back(self, error: CannotQueue | Unreadable) -> str:
        """Change the way of measuring for both sides, and say why; what was measured before does not count."""
        self.crew.end_all()
        if isinstance(error, CannotQueue) and error.calls > FEW_CALLS and are_few_enough(self.plan):
            self.most_calls = FEW_CALLS
            why = (f"{error.calls} calls launch more than the card's queue holds, so that batches are of {SHORT} and "
                   f"{FEW_CALLS}")
        elif isinstance(error, CannotQueue):
            self.mode, self.most_calls = Mode.LATENCY, MAX_CALLS
            why = "a side synchronises inside its call, so both are timed with their launches (latency batches)"
        elif self.copies:
            raise ToolError(f"the outputs cannot be read: {error}",
                            fix="allow process_vm_readv, or run where shared memory works") from None
        else:
            self.copies = True
            why = f"outputs are copied out inside the interval, on both sides alike ({error})"
        self.oracle.end()
        self.open_again()
        self.changes.append(why)
        self.plan = replace(self.plan, notes=(*self.plan.notes, *self.changes))
        return why

    def open_again(self) -> None:
        """A fresh oracle for the changed way; the mode and the copies stay as they were set."""
        mode, copies = self.mode, self.copies
        self.open()
        self.mode, self.copies = mode, copies
        self.prepare()

    def seconds(self) -> dict[str, float]:
        """Where the time went so far: by phase, within the batches by part, and all of it."""
        parts = {f"batch: {name}": seconds for name, seconds in self.checks.seconds.items()}
        return {**self.phases.seconds, **parts, "all": time.monotonic() - self.began}

    def close(self) -> None:
        """End everything; the connection's end would do it too."""
        for worker in self.crew.alive:
            worker.channel.close()
        self.fork.connection.close()
