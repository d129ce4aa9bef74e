"""What second figures say beside the verdict: a side's own clock, and long stretches under the power cap; decides nothing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence

from hotkernel.judge.wording import percent
from hotkernel.schema.gpu import POWER_CAP_MASK
from hotkernel.schema.verdict import Batch, Side, Value

CAPPED_SHARE = 0.25
WITNESS_US, WITNESS_PART = 1.5, 0.05  # by both of which a witness must claim less to be named
SIGN = 0.005  # of a log ratio: nearer to nothing it has no sign


def of(values: Sequence[Value], batches: Sequence[Batch], witness_us: Mapping[str, float],
       sustained_us: Mapping[str, float]) -> Iterator[str]:
    """Sentences for the result's warnings."""
    measured = {side: statistics.median(value.us for value in values if value.side == side)
                for side in {value.side for value in values}}
    yield from _of_witnesses(measured, witness_us)
    capped = sum(map(_is_capped, batches))
    if is_capped(batches):
        yield f"the power cap held the clock in {capped} of {len(batches)} batches: it is the card's steady state"
    yield from _of_stretches(measured, sustained_us)


def is_capped(batches: Sequence[Batch]) -> bool:
    """Whether the power cap held the clock in more than a quarter of the batches."""
    return sum(map(_is_capped, batches)) > CAPPED_SHARE * len(batches)


def _is_capped(batch: Batch) -> bool:
    return bool(batch.throttle_mask and batch.throttle_mask & POWER_CAP_MASK)


def _of_witnesses(measured: Mapping[Side, float], witness_us: Mapping[str, float]) -> Iterator[str]:
    for side, us in measured.items():
        claimed = witness_us.get(side)
        if claimed is not None and us - claimed > max(WITNESS_US, WITNESS_PART * us):
            yield (f"the {side}'s own events claim {claimed:.2f} us a call where {us:.2f} us were measured from outside; "
                   f"what is measured counts")


def _of_stretches(measured: Mapping[Side, float], sustained_us: Mapping[str, float]) -> Iterator[str]:
    if not {Side.BASELINE, Side.CANDIDATE} <= set(measured) & set(sustained_us):
        return
    in_turn = math.log(measured[Side.BASELINE] / measured[Side.CANDIDATE])
    alone = math.log(sustained_us[Side.BASELINE] / sustained_us[Side.CANDIDATE])
    if min(abs(in_turn), abs(alone)) > SIGN and (in_turn > 0) != (alone > 0):
        yield (f"over seconds under the power cap the candidate is {_said(alone)}, in short turns "
               f"{_said(in_turn)}: the two disagree")


def _said(log_ratio: float) -> str:
    return f"{percent(100 * (math.exp(abs(log_ratio)) - 1))} {'faster' if log_ratio > 0 else 'slower'}"
