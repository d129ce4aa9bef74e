"""The referee: a process of its own for each verify, without torch or an event loop; it owns the plan and the verdict.

`python -m hotkernel.referee` reads one request from standard input, a socket, with the zygote's socket beside it, measures,
saves the comparison and answers in JSON lines on standard output. It ends when its standard input does: no server, no
measurement.
"""

from __future__ import annotations

import json
import socket
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hotkernel import answer
from hotkernel.errors import ToolError
from hotkernel.harness.asides import STRETCH_S
from hotkernel.harness.batches import CannotQueue, Unreadable
from hotkernel.harness.crew import PairOfWorkers, setting_of
from hotkernel.harness.links import SideFault
from hotkernel.harness.pins import changed_pins, hash_file, pins_of
from hotkernel.harness.plan import LOOKS
from hotkernel.harness.referees import wait_for_request
from hotkernel.harness.trial import Trial
from hotkernel.harness.zygote import Fork
from hotkernel.judge import doubts, roofline, samples, second_opinions
from hotkernel.judge.sequence import looks_within
from hotkernel.judge.verdict import Step, decide, decide_over_incumbent, next_step
from hotkernel.machine import process as machine_process
from hotkernel.machine.one_card import OneCard
from hotkernel.records import comparisons, ledger
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.gpu import GpuState
from hotkernel.schema.plain import from_plain
from hotkernel.schema.request import Request
from hotkernel.schema.roofline import Calibration
from hotkernel.schema.verdict import Batch, Evidence, Fault, Mode, Pair, Plan, Side, Stage, Value, Verdict, VerdictKind

FOREIGN_REPEATS = 3
EMPTY_PAIRS = 3


def main() -> int:
    """Read the request, measure, save, answer."""
    machine_process.keep_private()
    asked = wait_for_request(socket.socket(fileno=sys.stdin.fileno()))
    if asked is None:
        return 0
    request = from_plain(Request, asked[0])
    try:
        comparison = Verify(request, Fork(asked[1])).run()
        comparisons.save(Path(request.state), comparison)
        _tell({"id": comparison.id})
    except ToolError as error:
        _tell({"error": error.message, "fix": error.fix, "detail": error.detail})
    except Exception as error:  # noqa: BLE001 - the server must hear of a bug, with its place
        traceback.print_exc()
        _tell({"bug": f"{type(error).__name__}: {error}", "detail": traceback.format_exc()[-3000:]})
    return 0


def _tell(message: Mapping[str, Any]) -> None:
    print(json.dumps(message), flush=True)


class Verify:
    """One verify from the request to the comparison."""

    def __init__(self, request: Request, fork: Fork) -> None:
        self.request = request
        self.card = OneCard(None)  # opened while the oracle loads
        self.before: GpuState | None = None
        self.sides = [Side(name) for name in request.sides]
        self.batches: list[Batch] = []
        self.chains: list[Batch] = []
        self.faults: list[Fault] = []
        self.warnings: list[str] = list(request.warnings)
        self.plan: Plan | None = None
        self.quiet, self.note = True, ""
        self.next_pair = 0
        self.empty = 0
        self.foreign: int | None = None
        self.trial = Trial(fork, setting_of(request, looks_within(request.n or LOOKS[-1])), lambda: self.card.moment(), self._say)

    def run(self) -> Comparison:
        """Measure until the verdict is known; a side's fault is a verdict too. Raises ToolError for what is no side's fault."""
        try:
            self.target = self.trial.open(self._open_card)
            self.pins = pins_of(self.target["loaded"], Path(self.request.baseline_file))
            self._check_pins("before")
            if self.request.contract_edited:
                self.faults.append(Fault(VerdictKind.INVALID, "contract_edited", "the hotkernel_contract.py beside the target is "
                                         "not what new_target wrote: make it anew with new_target and force"))
            self.key = self._key()
            self.earlier = self._earlier()
            if not self.faults:
                self._measure()
                self._check_pins("after")
        except SideFault as fault:
            self.trial.fork.sweep()  # raises ToolError where the zygote is gone: then no process ended by itself
            self.faults.append(fault.fault)
        finally:
            self.trial.close()
        return self._comparison()

    # Measuring --------------------------------------------------------------------------------------------------------

    def _measure(self) -> None:
        self.plan = self.trial.prepare()
        self.foreign = self._foreign_now()
        while True:
            try:
                return self._until_decided()
            except (CannotQueue, Unreadable) as error:
                self._say("measuring another way: " + self.trial.fall_back(error))
                self.plan = self.trial.plan
                self.batches.clear()
                self.chains.clear()
                self.next_pair = 0

    def _until_decided(self) -> None:
        """Pairs until the judge says that it is over."""
        while self.quiet:
            step = self._next()
            if step.stage is None:
                return
            have = sum(1 for pair in self._pairs() if pair.stage is step.stage)
            numbers = list(range(self.next_pair, self.next_pair + max(1, step.pairs - have)))
            self.next_pair = numbers[-1] + 1
            ahead = 3 if self.trial.mode is not Mode.CPU else 1
            for at in range(0, len(numbers), ahead):
                self._run_pairs(step, numbers[at:at + ahead], have + at)
                if self._next().stage is not step.stage:
                    break

    def _run_pairs(self, step: Step, numbers: list[int], done: int) -> None:
        assert step.stage is not None
        started = self.trial.start(step.stage, numbers, self.sides, self._hold_pins)
        for at, pair in enumerate(started):
            if at and self._next().stage is None:  # the first said that the candidate is far slower
                break
            self._take_alone(pair)
            what = "confirming" if step.stage is Stage.CONFIRMATION else "measuring"
            self._say(f"{what}: pair {done + at + 1} of {step.pairs}", done + at, step.pairs)
            for _ in range(FOREIGN_REPEATS):
                taken = self.trial.values.of_pair(pair)
                if not self._is_disturbed():
                    break
                self.batches += [replace(batch, void="another process used the card") for batch in taken]
            else:
                self.quiet, self.note = False, "another process used the card during the measurement"
            self.batches += taken
            self._count_empty(taken)
            if doubts.needs_chains(self.trial.plan, taken, self.trial.fills):
                self.chains += self.trial.values.chains_of(pair)
            self._look_aside(pair)
        self.trial.end(started)

    def _look_aside(self, pair: PairOfWorkers) -> None:
        """Second figures, once a verify: with launches, by the side's own clock, and over seconds under a power cap."""
        asides = self.trial.asides
        if not asides.call_us:
            asides.of_pair(self.trial.values, pair)
        if not asides.sustained_us and second_opinions.is_capped(self.batches):
            self._say(f"the power cap holds the clock: {STRETCH_S:.0f} s of each side alone")
            asides.of_stretches(self.trial.values, pair)

    def _take_alone(self, pair: PairOfWorkers) -> None:
        """Keep the baseline's values from before the others began; a confirmation without them proves nothing."""
        assert self.plan is not None
        self.batches += pair.alone
        if pair.stage is Stage.CONFIRMATION and not samples.values_of(self.plan, pair.alone, self.trial.fills):
            self.quiet, self.note = False, "the baseline could not be measured alone"

    def _count_empty(self, taken: list[Batch]) -> None:
        """A pair without one whole value says nothing; after some of them the machine is too busy to go on."""
        assert self.plan is not None
        if not samples.values_of(self.plan, taken, self.trial.fills):
            self.empty += 1
            if self.empty >= EMPTY_PAIRS:
                self.quiet = False
                self.note = next((batch.void for batch in reversed(taken) if batch.void), "no value was whole")

    def _next(self) -> Step:
        assert self.plan is not None
        return next_step(self.plan, self._pairs(), earlier=self.earlier)

    def _pairs(self) -> tuple[Pair, ...]:
        assert self.plan is not None
        values = samples.values_of(self.plan, self.batches, self.trial.fills)
        return samples.pairs_of(self.plan, values)

    def _open_card(self) -> None:
        self.card = OneCard(self.request.gpu_uuid)
        self.before = self.card.state()

    def _foreign_now(self) -> int | None:
        """How many processes compute on the card beside our own; None on the CPU, which they do not disturb."""
        on_card = self.trial.mode is not Mode.CPU
        return self.card.processes_beside(len(self.trial.crew.alive) + 1) if on_card else None

    def _is_disturbed(self) -> bool:
        """Whether more processes than before compute on the card."""
        return self.foreign is not None and (self._foreign_now() or 0) > self.foreign

    # Identity ---------------------------------------------------------------------------------------------------------

    def _check_pins(self, when: str) -> None:
        """`invalid` when the baseline, or a file that it loads, is not what was pinned."""
        known = self.request.pins if when == "before" else self.pins
        for name in changed_pins(known, self.pins if when == "before" else
                                 {name: hash_file(Path(name)) for name in self.pins}):
            self.faults.append(Fault(VerdictKind.INVALID, "pins_changed", f"{Path(name).name} is not what it was when the target "
                                     f"was pinned: undo the edit, or give what is another target now a file of another name "
                                     f"(or this one, once what is recorded of it is superseded)"))
        for side, kept in self.request.sides.items():
            if hash_file(Path(kept["path"])) != self.request.sources[side].sha256 and side != Side.BASELINE:
                self.faults.append(Fault(VerdictKind.INVALID, "source_changed", f"the {side}: its source is not what it was when "
                                         "the verify began", Side(side)))

    def _hold_pins(self) -> None:
        """Raise SideFault when a file that the baseline stands on has changed since the verify began."""
        self._check_pins("after")
        if self.faults:
            raise SideFault(self.faults.pop())

    def _key(self) -> ledger.Key:
        candidate = Path(self.request.sides[Side.CANDIDATE]["path"]).read_bytes()
        return ledger.key_of(baseline_sha256=self.request.sources["baseline"].sha256,
                             contract_sha256=self.request.contract_sha256,
                             card=self.request.gpu_uuid or "cpu", candidate=candidate, case=self.target["case"])

    def _earlier(self) -> tuple[Pair, ...]:
        """Pairs of earlier verifies of the same candidate, so that asking again goes on with one test."""
        return ledger.earlier(Path(self.request.state), self.key) if self.request.keep_ledger else ()

    def _say(self, message: str, done: int | None = None, total: int | None = None) -> None:
        _tell({"progress": message, "done": done, "total": total})

    # The answer -------------------------------------------------------------------------------------------------------

    def _evidence(self) -> Evidence:
        plan = self.plan or Plan(self.trial.mode, 1, 2, 1, (3,), 3)
        return Evidence(
            plan=plan, batches=tuple(self.batches), fills=tuple(self.trial.fills), faults=tuple(self.faults),
            earlier=self.earlier if hasattr(self, "earlier") else (), quiet=self.quiet, note=self.note, chains=tuple(self.chains),
            copy_us=self.trial.copy_us, floor_us=self._floor_us())

    def _floor_us(self) -> float | None:
        return roofline.floor_us(self._calibration(), self.target["min_bytes"]) if hasattr(self, "target") else None

    def _calibration(self) -> Calibration | None:
        return self.request.calibration if hasattr(self, "target") and self.target["device"] == "cuda" else None

    def _comparison(self) -> Comparison:
        """Everything that a reader needs to come to the same verdict."""
        evidence = self._evidence()
        verdict = decide(evidence)
        over_best = decide_over_incumbent(evidence) if Side.INCUMBENT in self.sides else None
        values = samples.values_of(evidence.plan, evidence.batches, evidence.fills)
        resolution = samples.resolution_of(evidence.plan, values)
        count = None
        if self.request.keep_ledger and hasattr(self, "key"):
            pairs = samples.pairs_of(evidence.plan, values) if not self.faults else ()
            count = ledger.append(Path(self.request.state), self.key, pairs, self.request.id)
        candidate = self._measured(values, verdict, Side.CANDIDATE)
        return replace(
            answer.head(self.request, getattr(self, "target", {}), verdict, getattr(self, "pins", {}), self.trial.crew.held or 0),
            baseline=samples.measurement_of(values, Side.BASELINE), candidate=candidate,
            incumbent=self._measured(values, verdict, Side.INCUMBENT),
            speedup_over_incumbent=over_best.speedup if over_best else None,
            incumbent_verdict=over_best.kind if over_best else None,
            resolution_us=resolution.us if resolution else None,
            call_ms=answer.in_ms(self.trial.asides.call_us), witness_ms=answer.in_ms(self.trial.asides.witness_us),
            sustained_ms=answer.in_ms(self.trial.asides.sustained_us),
            setup_ms=answer.medians(self.trial.setup_ms), limited_rounds=self.trial.limited,
            floor_ms=evidence.floor_us / 1e3 if evidence.floor_us else None,
            checks=self.trial.checks.as_checks({f.side: (f.rule, f.reason) for f in self.faults if f.side}),
            gpu_before=self.before, gpu_after=self.card.state(), tries=count, evidence=evidence,
            seconds=self.trial.seconds(), warnings=tuple(self._all_warnings(values)), confirms=self.request.confirms,
            **answer.ceiling(self._calibration(), getattr(self, "target", {}), candidate),
        )

    def _measured(self, values: Any, verdict: Verdict, side: Side) -> Any:
        """A side's times, unless its outputs were wrong: the time of a wrong answer is no time."""
        return None if verdict.kind in (VerdictKind.INCORRECT, VerdictKind.INVALID) else samples.measurement_of(values, side)

    def _all_warnings(self, values: Sequence[Value]) -> Iterator[str]:
        yield from self.warnings
        yield from second_opinions.of(values, self.batches, self.trial.asides.witness_us, self.trial.asides.sustained_us)
        if self.foreign:
            yield f"{self.foreign} other process{'es' if self.foreign > 1 else ''} held the card when the verify began"


if __name__ == "__main__":
    sys.exit(main())
