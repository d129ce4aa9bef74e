"""The verdict over several cases: a gain in the mean with no case slower, and each case's own word first."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hotkernel.judge.cases import join, over_incumbent
from hotkernel.schema.comparison import CaseResult
from hotkernel.schema.verdict import VerdictKind


def case(name: str, verdict: VerdictKind, speedup: float | None = None, width: float = 0.02,
         rule: str | None = None) -> CaseResult:
    interval = None if speedup is None else (speedup * math.exp(-width), speedup * math.exp(width))
    return CaseResult(name, f"id-{name}", verdict, f"why {name}", rule, speedup, interval, 1.0, 1.0, 8, {}, "torch.float32")


FASTER, SLOWER, UNKNOWN = VerdictKind.FASTER, VerdictKind.SLOWER, VerdictKind.INCONCLUSIVE


def test_a_case_whose_gain_was_doubted_is_no_part_of_a_mean():
    verdict = join([case("a", FASTER, 1.1), case("b", UNKNOWN, 8.0, rule="baseline_disturbed")])

    assert (verdict.kind, verdict.rule, verdict.speedup) == (UNKNOWN, "baseline_disturbed", None)


def test_faster_in_all_is_faster_by_the_geometric_mean():
    verdict = join([case("a", FASTER, 2.0), case("b", FASTER, 8.0)])

    assert verdict.kind is FASTER
    assert verdict.speedup == pytest.approx(4.0)
    assert verdict.interval is not None
    # two independent errors of one size: the mean's is smaller by the root of two
    assert math.log(verdict.interval[1] / 4.0) == pytest.approx(0.02 / math.sqrt(2))


def test_faster_in_one_and_no_different_in_another_is_faster_where_the_mean_is():
    assert join([case("a", FASTER, 1.5), case("b", UNKNOWN, 1.0)]).kind is FASTER
    assert join([case("a", FASTER, 1.03), case("b", UNKNOWN, 0.99, width=0.2)]).kind is UNKNOWN


def test_one_slower_case_forbids_faster_however_large_the_mean():
    verdict = join([case("a", FASTER, 10.0), case("b", SLOWER, 0.9)])

    assert (verdict.kind, verdict.rule) == (UNKNOWN, "cases_disagree")
    assert "b (0.9 times)" in verdict.reason
    assert join([case("a", UNKNOWN, 1.0), case("b", SLOWER, 0.9)]).kind is SLOWER


def test_a_case_that_seems_much_slower_is_not_taken_for_no_different_because_it_is_noisy():
    verdict = join([case("a", FASTER, 10.0), case("b", UNKNOWN, 0.5, width=0.8)])

    assert (verdict.kind, verdict.rule) == (UNKNOWN, "cases_disagree")
    assert "b (0.5 times) seems slower" in verdict.reason


def test_a_mean_above_one_with_no_case_confirmed_is_no_gain():
    assert join([case("a", UNKNOWN, 1.2, width=0.01), case("b", UNKNOWN, 1.2, width=0.01)]).kind is UNKNOWN


@pytest.mark.parametrize("kind", [VerdictKind.INVALID, VerdictKind.INCORRECT])
def test_a_case_that_was_refused_refuses_the_whole_by_its_name_and_rule(kind):
    verdict = join([case("a", FASTER, 2.0), case("b", kind, rule="wrong_values")])

    assert (verdict.kind, verdict.rule, verdict.reason, verdict.speedup) == (kind, "wrong_values", "case b: why b", None)


def test_invalid_comes_before_incorrect():
    assert join([case("a", VerdictKind.INCORRECT, rule="x"), case("b", VerdictKind.INVALID, rule="y")]).rule == "y"


def test_a_case_that_was_not_measured_leaves_the_whole_open():
    verdict = join([case("a", FASTER, 2.0), case("b", UNKNOWN, rule="card_not_quiet")])

    assert (verdict.kind, verdict.rule, verdict.speedup) == (UNKNOWN, "card_not_quiet", None)


def test_equal_cases_are_equivalent():
    assert join([case("a", UNKNOWN, 1.0, width=0.005), case("b", UNKNOWN, 1.001, width=0.005)]).equivalent is True


def beside(name: str, verdict: VerdictKind | None, speedup: float | None) -> CaseResult:
    return replace(case(name, FASTER, 2.0), incumbent_verdict=verdict, speedup_over_incumbent=speedup)


@pytest.mark.parametrize(("kinds", "whole"), [
    ((FASTER, UNKNOWN), FASTER), ((SLOWER, UNKNOWN), SLOWER), ((SLOWER, FASTER), UNKNOWN), ((UNKNOWN, UNKNOWN), UNKNOWN)])
def test_over_the_best_so_far_cases_that_disagree_say_nothing(kinds, whole):
    kind, speedup = over_incumbent([beside("a", kinds[0], 1.1), beside("b", kinds[1], 1.1)])

    assert kind is whole
    assert speedup == pytest.approx(1.1)


def test_over_the_best_so_far_nothing_is_known_where_a_case_does_not_say():
    assert over_incumbent([beside("a", FASTER, 1.1), beside("b", None, None)]) == (None, None)
