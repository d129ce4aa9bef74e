"""Claims about keep, equal and revert, the headroom, and when to stop."""

from __future__ import annotations

from typing import Any

import pytest
from record_makers import UUID, compared, recorded, self_reported

from hotkernel.records.advice import advise, run_best
from hotkernel.schema.comparison import Comparison, Source
from hotkernel.schema.record import Advice, Basis, Decision, Record
from hotkernel.schema.verdict import VerdictKind

FASTER, SLOWER, UNSURE, INVALID = (
    VerdictKind.FASTER,
    VerdictKind.SLOWER,
    VerdictKind.INCONCLUSIVE,
    VerdictKind.INVALID,
)


def told(*comparisons: Comparison, who: str = "ada") -> Advice:
    """The advice on the last of these, recorded one after the other."""
    records = [recorded(each, second=number, who=who) for number, each in enumerate(comparisons)]
    return advise(records[:-1], records[-1])


def beside(best: Comparison, over_best: VerdictKind, **given: Any) -> Comparison:
    return compared(number=9, incumbent_id=best.id, incumbent_verdict=over_best, speedup_over_incumbent=1.0, **given)


@pytest.mark.parametrize(
    ("verdict", "decision"),
    [
        ("faster", Decision.KEEP),
        ("inconclusive", Decision.EQUAL),
        ("slower", Decision.REVERT),
        ("incorrect", Decision.REVERT),
        ("invalid", Decision.REVERT),
    ],
)
def test_the_first_change_is_held_against_the_baseline(verdict: str, decision: Decision) -> None:
    advice = told(compared(verdict))

    assert advice.decision is decision
    assert advice.keep is (decision is Decision.KEEP)
    assert advice.best_id is None


@pytest.mark.parametrize(
    ("verdict", "decision"), [(FASTER, Decision.KEEP), (SLOWER, Decision.REVERT), (UNSURE, Decision.EQUAL)]
)
def test_an_incumbent_that_ran_beside_it_decides_whatever_the_two_days_speedups_say(
    verdict: VerdictKind, decision: Decision
) -> None:
    best = compared(speedup=1.5)

    for speedup in (1.2, 1.9):
        advice = told(best, beside(best, verdict, speedup=speedup))
        assert (advice.decision, advice.basis) == (decision, Basis.INCUMBENT)
        assert "same interleaving" in advice.reason
        assert (advice.best_id, advice.best_speedup) == (best.id, 1.5)


def test_a_change_that_beats_the_incumbent_but_not_the_baseline_is_not_kept() -> None:
    best = compared()

    assert told(best, beside(best, FASTER, verdict="inconclusive", speedup=1.0)).decision is Decision.EQUAL


def test_the_incumbent_is_also_known_by_its_source() -> None:
    best = compared(source="best")
    sources = {"incumbent": Source("i.py", best.sources["candidate"].sha256), "candidate": Source("c.py", "d" * 64)}

    advice = told(best, compared(number=1, speedup=1.1, sources=sources, incumbent_verdict=FASTER))

    assert (advice.decision, advice.basis) == (Decision.KEEP, Basis.INCUMBENT)


@pytest.mark.parametrize(
    "new",
    [
        compared(number=9, speedup=1.8, incumbent_id="20200101-000000-another0", incumbent_verdict=SLOWER),
        compared(number=9, speedup=1.8, incumbent_id=compared().id, incumbent_verdict=INVALID),
        compared(number=9, speedup=1.8),
    ],
)
def test_without_the_best_beside_it_the_intervals_are_compared_and_the_answer_says_so(new: Comparison) -> None:
    advice = told(compared(speedup=1.5), new)

    assert (advice.decision, advice.basis) == (Decision.KEEP, Basis.INTERVALS)
    assert "difference of two verifies' intervals" in advice.reason


@pytest.mark.parametrize(
    ("speedup", "spread", "decision"),
    [
        (1.525, 0.01, Decision.KEEP),
        (1.515, 0.01, Decision.EQUAL),
        (1.485, 0.01, Decision.EQUAL),
        (1.4, 0.01, Decision.REVERT),
        (1.4, 0.2, Decision.EQUAL),
    ],
)
def test_intervals_that_overlap_are_equal_within_noise(speedup: float, spread: float, decision: Decision) -> None:
    assert told(compared(speedup=1.5), compared(number=1, speedup=speedup, spread=spread)).decision is decision


def test_inconclusive_against_the_baseline_and_clearly_below_the_best_is_reverted() -> None:
    assert told(compared(speedup=1.5), compared("inconclusive", 1.0, number=1)).decision is Decision.REVERT


def test_an_interval_that_is_missing_is_not_made_up() -> None:
    advice = told(compared(speedup=1.5), compared(number=1, speedup=3.0, interval_99=None))

    assert advice.decision is Decision.EQUAL
    assert "interval is missing" in advice.reason


@pytest.mark.parametrize(
    ("speedup", "decision"), [(1.6, Decision.KEEP), (1.501, Decision.EQUAL), (1.3, Decision.REVERT)]
)
def test_script_pairs_are_held_against_each_other_by_their_intervals(speedup: float, decision: Decision) -> None:
    assert told(self_reported(speedup=1.5), self_reported(number=1, speedup=speedup)).decision is decision


@pytest.mark.parametrize(
    "other",
    [
        recorded(compared(speedup=9.0), who="bo"),
        recorded(compared(speedup=9.0), target="softmax"),
        recorded(compared(speedup=9.0, gpu_uuid="GPU-other")),
        recorded(compared(speedup=9.0, device="cpu")),
        recorded(self_reported(speedup=9.0)),
        recorded(compared(speedup=9.0, sources={"baseline": Source("rms_baseline.py", "e" * 64)})),
    ],
)
def test_another_persons_targets_cards_baselines_or_scripts_record_is_not_the_runs_best(other: Record) -> None:
    advice = advise([other], recorded(compared(number=1, speedup=1.1), second=1))

    assert (advice.decision, advice.best_id) == (Decision.KEEP, None)


def test_the_best_is_the_last_that_was_kept() -> None:
    one, two, three = compared(number=1, speedup=1.2), compared(number=2, speedup=1.5), compared(number=3, speedup=1.3)
    records = [recorded(each, second=number) for number, each in enumerate((one, two, three))]

    assert advise(records, recorded(compared(number=4, speedup=1.4), second=9)).best_id == two.id
    assert run_best(records, "rms", UUID, "ada") == records[1]
    assert run_best(records, "rms", UUID) == records[1]
    assert run_best(records, "rms", UUID, "bo") is None
    assert run_best(records, "rms", "cpu") is None
    assert run_best([recorded(self_reported())], "rms", UUID) is None


def test_three_changes_in_a_row_that_do_not_beat_the_best_stop_the_run() -> None:
    best = compared(speedup=1.5)
    failures = [compared("slower", 0.9, number=1), compared("incorrect", number=2), compared(number=3, speedup=1.5)]

    counts = [told(best, *failures[:count]) for count in (1, 2, 3)]

    assert [(each.changes_without_gain, each.stop) for each in counts] == [(1, False), (2, False), (3, True)]
    assert counts[-1].stop_reason == "3 changes in a row did not beat the best"


def test_a_gain_begins_the_count_anew() -> None:
    history = [
        compared("slower", 0.9, number=1),
        compared("slower", 0.9, number=2),
        compared(number=3, speedup=1.5),
        compared("slower", 0.9, number=4),
    ]

    assert told(*history).changes_without_gain == 1


def test_the_same_source_again_and_an_invalid_verify_are_no_further_changes() -> None:
    best, failed = compared(source="best"), compared("slower", 0.9, number=1, source="failed")
    again = compared("slower", 0.9, number=2, source="failed")
    invalid = compared("invalid", number=3, source="other")
    best_again = compared("inconclusive", 1.0, number=4, source="best")

    assert told(best, failed, again, invalid, best_again).changes_without_gain == 1


def test_within_ten_percent_of_the_ceiling_the_run_stops_and_the_headroom_is_that_of_what_is_in_force() -> None:
    close = told(compared(ceiling_share_pct=91.0))
    far = told(compared(ceiling_share_pct=89.0))

    assert (close.stop, close.headroom_pct) == (True, 9.0)
    assert "within 10 % of the measured ceiling" in str(close.stop_reason)
    assert (far.stop, far.headroom_pct) == (False, 11.0)


def test_a_change_that_is_reverted_leaves_the_bests_headroom() -> None:
    advice = told(
        compared(speedup=1.5, ceiling_share_pct=60.0), compared("slower", 0.5, number=1, ceiling_share_pct=20.0)
    )

    assert advice.headroom_pct == 40.0


def test_with_nothing_kept_the_headroom_is_the_baselines() -> None:
    advice = told(compared("slower", 0.5, ceiling_share_pct=47.5))

    assert advice.headroom_pct == pytest.approx(5.0)
    assert advice.stop


def test_without_a_calibration_the_headroom_is_unknown() -> None:
    assert told(compared()).headroom_pct is None


def test_above_the_ceiling_no_headroom_is_left_rather_than_less_than_none() -> None:
    assert told(compared(ceiling_share_pct=104.0)).headroom_pct == 0.0
