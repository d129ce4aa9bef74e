"""Amdahl's law: what a faster part does to the whole, and whether what was measured is what was to be expected."""

from __future__ import annotations

import math

import pytest

from hotkernel.judge import samples
from hotkernel.judge.amdahl import Part, expect, whole_speedup
from hotkernel.schema.verdict import Measurement


def steps(mean_ms: float, spread: float = 0.01) -> Measurement:
    """Three runs of a side, in the order that both were run."""
    found = samples.measure([mean_ms, mean_ms * (1 + spread), mean_ms * (1 - spread)])
    assert found is not None
    return found


@pytest.mark.parametrize(("share", "speedup", "whole"), [
    (0.5, 2, 4 / 3), (0.5, math.inf, 2), (0.0, 10, 1), (1.0, 3, 3), (0.25, 0.5, 0.8), (1.3, 2, 2)])
def test_the_whole_gains_by_the_share_that_became_faster(share: float, speedup: float, whole: float) -> None:
    assert whole_speedup(share, speedup) == pytest.approx(whole)


def test_nothing_is_left_of_a_whole_that_costs_nothing() -> None:
    assert whole_speedup(1.0, math.inf) is None


def test_a_gain_as_large_as_the_part_saves_agrees() -> None:
    found = expect(steps(10.0), steps(7.5), [Part(ms=5.0, speedup=2.0, low=1.9, high=2.1)])

    assert found.agrees
    assert found.predicted[1] == pytest.approx(10 / 7.5)
    assert found.measured[1] == pytest.approx(10 / 7.5)
    assert found.words.endswith("they agree")


def test_parts_add_up() -> None:
    found = expect(steps(10.0), steps(7.0), [Part(4.0, 2.0, 2.0, 2.0), Part(2.0, 2.0, 2.0, 2.0)])

    assert found.agrees
    assert found.predicted[1] == pytest.approx(10 / 7)


def test_a_gain_that_the_step_does_not_show_disagrees() -> None:
    found = expect(steps(10.0), steps(9.9), [Part(5.0, 2.0, 1.9, 2.1)])

    assert not found.agrees
    assert "less than expected" in found.words


def test_a_gain_beyond_what_the_part_takes_disagrees() -> None:
    found = expect(steps(10.0), steps(4.0), [Part(2.0, 2.0, 1.9, 2.1)])

    assert not found.agrees
    assert "more than expected" in found.words


def test_noise_is_the_script_rules_own() -> None:
    quiet = expect(steps(10.0), steps(9.0), [Part(4.0, 2.0, 1.9, 2.1)])
    noisy = expect(steps(10.0, 0.1), steps(9.0, 0.2), [Part(4.0, 2.0, 1.9, 2.1)])

    assert (quiet.agrees, noisy.agrees) == (False, True)
    assert "but so would no gain at all" in noisy.words


def test_too_few_runs_agree_with_nothing_and_disagree_with_nothing() -> None:
    one = samples.measure([10.0])
    assert one is not None
    found = expect(one, one, [Part(4.0, 2.0, 1.9, 2.1)])

    assert (found.measured, found.agrees) == (None, None)
    assert found.predicted[1] == pytest.approx(1.25)
    assert "too few runs" in found.words
