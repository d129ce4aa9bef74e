"""Second figures are said beside the verdict where they differ enough to matter, and are silent where they do not."""

from __future__ import annotations

import pytest

from hotkernel.judge import second_opinions
from hotkernel.schema.gpu import POWER_CAP_MASK
from hotkernel.schema.verdict import Batch, Side, Stage, Value


def values(baseline_us: float, candidate_us: float) -> list[Value]:
    return [Value(side, Stage.LOOK, 0, at, us) for at in range(3)
            for side, us in ((Side.BASELINE, baseline_us), (Side.CANDIDATE, candidate_us))]


def batches(capped: int, free: int) -> list[Batch]:
    return [Batch(Side.BASELINE, Stage.LOOK, 0, at, 4, 100.0, 0.0, throttle_mask=POWER_CAP_MASK if at < capped else 0)
            for at in range(capped + free)]


def said(witness=None, sustained=None, capped=0, free=8, baseline_us=100.0, candidate_us=50.0) -> list[str]:
    return list(second_opinions.of(values(baseline_us, candidate_us), batches(capped, free), witness or {}, sustained or {}))


@pytest.mark.parametrize(("claimed_us", "is_named"), [(5.0, True), (47.4, True), (47.6, False), (50.0, False), (70.0, False)])
def test_a_witness_that_claims_much_less_than_was_measured_is_named(claimed_us, is_named):
    found = said(witness={Side.CANDIDATE: claimed_us})

    assert [f"claim {claimed_us:.2f} us" in words for words in found] == [True] * is_named


def test_a_short_call_is_not_named_for_the_gap_between_launches():
    assert said(witness={Side.CANDIDATE: 1.2}, candidate_us=2.6) == []
    assert len(said(witness={Side.CANDIDATE: 1.0}, candidate_us=2.6)) == 1


@pytest.mark.parametrize(("capped", "free", "is_said"), [(0, 8, False), (2, 6, False), (3, 5, True), (8, 0, True)])
def test_the_power_cap_is_said_when_it_held_the_clock_in_more_than_a_quarter(capped, free, is_said):
    found = said(capped=capped, free=free)

    assert found == [f"the power cap held the clock in {capped} of 8 batches: it is the card's steady state"] * is_said


@pytest.mark.parametrize(("sustained", "disagrees"), [
    ({Side.BASELINE: 100.0, Side.CANDIDATE: 104.0}, True),
    ({Side.BASELINE: 100.0, Side.CANDIDATE: 80.0}, False),
    ({Side.BASELINE: 100.0, Side.CANDIDATE: 100.2}, False),  # no sign at all
    ({Side.BASELINE: 100.0}, False),
])
def test_stretches_that_disagree_with_short_turns_in_sign_are_said(sustained, disagrees):
    found = said(sustained=sustained)

    assert [("4.0 % slower" in words, "100.0 % faster" in words) for words in found] == [(True, True)] * disagrees
