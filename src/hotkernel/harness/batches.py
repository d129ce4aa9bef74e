"""What a batch is on every device: oracle and worker in turn, never at once, stamps that are no worker's word; runs none."""

from __future__ import annotations

import collections
from dataclasses import dataclass, field
from typing import Any, Protocol

from hotkernel.harness.links import SideFault, WorkerLink
from hotkernel.schema.verdict import Check, Fault, Side, VerdictKind

BATCH_GRACE_S = 30.0  # beyond what the plan expects; a worker that needs more is stuck
RESTLESS = "a side did not stand still when it was told to"
STOOD_US = 50.0  # the last of its stopping may be booked after it was seen to stand
# Seen on a virtual machine: one batch in some 7,000 of honest sides was booked late by more than that. So a few are void. A look
# and a confirmation have three pairs each at least: a side that disturbs the other in one value of each is caught.
FEW_RESTLESS, RESTLESS_ONE_IN = 3, 100


class CannotQueue(Exception):
    """A side's calls cannot be queued behind the gate: it synchronises inside, or they launch more than the queue holds."""

    def __init__(self, calls: int) -> None:
        super().__init__(f"{calls} calls could not be queued")
        self.calls = calls  # the fewest that could not be


class Unreadable(Exception):
    """The outputs cannot be read where they lie; they must be copied out."""


@dataclass
class Stamped:
    """One batch as it went: the span, the check's own time where the device took it, and why it is void if it is."""

    span_us: float
    check_us: float | None
    at_s: float
    void: str | None = None
    fill_us: float | None = None
    ahead_us: float | None = None  # what the call ahead of it took


@dataclass
class Checks:
    """What the oracle says of each side's outputs so far, and where the time of all batches went."""

    tallies: dict[str, dict[str, Any]] = field(default_factory=dict)
    returned: int = 1  # tensors that a call returns
    stands: collections.Counter[Side] = field(default_factory=collections.Counter)  # how often a side had to stand still
    restless: collections.Counter[Side] = field(default_factory=collections.Counter)  # and ran all the same
    seconds: dict[str, float] = field(default_factory=dict)

    def take(self, worker: WorkerLink, answer: dict[str, Any]) -> None:
        """Keep the tally; raise the side's fault when there is one."""
        self.tallies[worker.side] = answer["tally"]
        if answer["fault"]:
            rule, reason = answer["fault"]
            if answer.get("is_the_targets") and worker.side is not Side.BASELINE:
                reason = f"the {worker.side} and the baseline alike: {reason}"
                raise SideFault(Fault(VerdictKind.INCORRECT, rule, reason, Side.BASELINE))
            raise worker.wrong(rule, reason, VerdictKind.INCORRECT if rule != "out_of_protocol" else VerdictKind.INVALID)

    def stood(self, worker: WorkerLink) -> bool:
        """Whether a side stands, and nothing of it has run since it does; raise its fault when it ran too often.

        A process can have itself continued. The batch that it did that for is void, the other side's before it, too.
        """
        side, ran_us = worker.side, worker.ran_us()
        self.stands[side] += 1
        self.restless[side] += ran_us > STOOD_US
        if self.restless[side] > FEW_RESTLESS + self.stands[side] // RESTLESS_ONE_IN:
            raise worker.fault("ran_out_of_turn", f"it ran while it had to stand still, {self.restless[side]} of "
                               f"{self.stands[side]} times")
        return worker.standing is not None and ran_us <= STOOD_US

    def as_checks(self, broken: dict[str, tuple[str, str]]) -> tuple[Check, ...]:
        """One Check a side; `broken` is the rule and reason of a side that failed."""
        found = []
        for side, tally in self.tallies.items():
            rule, detail = broken.get(side, (None, ""))
            found.append(Check(
                side=side, outputs=tally["outputs"], ok=rule is None,  # type: ignore[arg-type]
                within_share=1.0 - tally["worst_bad_share"] if tally["outputs"] else None,
                max_abs_error=tally["max_abs"], max_rel_error=tally["max_rel"], rms_error_ulps=tally["rms_ulps"],
                rounds=dict(tally.get("rounds", {})), rule=rule, detail=detail))
        return tuple(found)


class Batches(Protocol):
    """How one batch is run on a device."""

    def run(self, worker: WorkerLink, picks: list[int], order: list[int], expected_us: float) -> Stamped:
        """One batch of `worker` on the pool's `picks` in the slots of `order`; raises SideFault."""

    def ready(self, worker: WorkerLink, handle: bytes) -> None:
        """A worker has mapped its slots."""

    def forget(self, worker: WorkerLink) -> None:
        """A worker is gone."""
