"""Second figures of each side, taken beside the values that decide: with launches, by the side's own clock, over seconds."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field

from hotkernel.harness.card_batches import CardBatches
from hotkernel.harness.crew import PairOfWorkers
from hotkernel.harness.links import WorkerLink, nonce
from hotkernel.harness.values import Values
from hotkernel_contract import protocol

CALL_VALUES = 3
WITNESS_TIMEOUT_S = 30.0
STRETCH_S = 3.0


@dataclass
class Asides:
    """What is shown and decides nothing; microseconds a call by side."""

    call_us: dict[str, float] = field(default_factory=dict)
    witness_us: dict[str, float] = field(default_factory=dict)
    sustained_us: dict[str, float] = field(default_factory=dict)

    def of_pair(self, values: Values, pair: PairOfWorkers) -> None:
        """On a card: each side's time with its launches, and what its own events say; raises SideFault."""
        if isinstance(values.batches, CardBatches):
            for side, worker in pair.workers.items():
                self.call_us[side] = _with_launches(values, values.batches, worker)
            for side, worker in pair.workers.items():
                claimed = _by_its_own_clock(values, values.batches, worker)
                if claimed is not None:
                    self.witness_us[side] = claimed

    def of_stretches(self, values: Values, pair: PairOfWorkers) -> None:
        """Each side alone for some seconds: where the power cap holds the clock, short turns share it and long ones do not."""
        for side, worker in pair.workers.items():
            self.sustained_us[side] = _over_seconds(values, worker)


def _with_launches(values: Values, batches: CardBatches, worker: WorkerLink) -> float:
    """From open batches, which hold launches that the card waits for."""
    counts = (values.plan.n1, values.plan.n2)
    slots = list(range(values.slots))
    slopes: list[float] = []
    for _ in range(CALL_VALUES):
        spans = [batches.attempt(worker, values.known_entries(n), slots[:n], n * values.baseline_us, 0.0) for n in counts]
        slopes.append((spans[1].span_us - spans[0].span_us) / (counts[1] - counts[0]))
    return statistics.median(slopes)


def _by_its_own_clock(values: Values, batches: CardBatches, worker: WorkerLink) -> float | None:
    """What a pair of events in the worker's own process says: a witness, who may lie."""
    number = nonce()
    batches.checks.stood(worker)
    worker.go_on()
    worker.send(protocol.pack(protocol.WITNESS, values.plan.n2, number))
    heard = worker.expect(protocol.WITNESSED, time.monotonic() + WITNESS_TIMEOUT_S, number)
    worker.stand_still()
    return protocol.witnessed_us(heard)


def _over_seconds(values: Values, worker: WorkerLink) -> float:
    until = time.monotonic() + STRETCH_S
    slopes: list[float] = []
    while time.monotonic() < until or not slopes:
        spans = [values.batch(worker, values.known_entries(n)) for n in (values.plan.n1, values.plan.n2)]
        slopes.append((spans[1].span_us - spans[0].span_us) / (values.plan.n2 - values.plan.n1))
    return statistics.median(slopes)
