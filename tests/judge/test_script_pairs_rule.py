"""Script pairs: the older system's rule, to its last digit, and what it refuses."""

from __future__ import annotations

import math

import pytest

from hotkernel.judge.verdict import decide_scripts
from hotkernel.schema.verdict import Fault, VerdictKind

FASTER, SLOWER, INCONCLUSIVE = VerdictKind.FASTER, VerdictKind.SLOWER, VerdictKind.INCONCLUSIVE
INVALID = VerdictKind.INVALID


def test_script_pairs_follow_the_older_rule():
    noisy_b, noisy_c = [1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 1.0], [1.0, 0.9, 1.1, 0.95, 0.8, 1.0, 0.9]

    assert decide_scripts([2.0, 2.01, 1.99], [1.0, 1.01, 0.99]).kind is FASTER
    assert decide_scripts([1.0, 1.01, 0.99], [2.0, 2.01, 1.99]).kind is SLOWER
    assert decide_scripts(noisy_b, noisy_c).kind is INCONCLUSIVE
    assert decide_scripts([1.0] * 3, [1.0] * 3).kind is INCONCLUSIVE
    assert decide_scripts([1.0] * 50, [1.0] * 50).kind is INCONCLUSIVE
    assert decide_scripts([1.0], [0.5]).kind is INCONCLUSIVE
    assert decide_scripts([2.0, 2.2], [1.0, 1.1]).speedup == pytest.approx(2.1 / 1.05)


def test_script_pairs_draw_the_line_at_twice_the_error_of_the_difference():
    baseline = [10.0, 11.0, 12.0]  # sample std 1
    allowed = 2 * math.sqrt(1 / 3 + 1 / 3)

    assert decide_scripts(baseline, [ms - allowed - 1e-9 for ms in baseline]).kind is FASTER
    assert decide_scripts(baseline, [ms - allowed + 1e-9 for ms in baseline]).kind is INCONCLUSIVE
    assert decide_scripts(baseline, [ms + allowed + 1e-9 for ms in baseline]).kind is SLOWER


def test_script_pairs_refuse_what_did_not_measure_the_same():
    differs = Fault(INVALID, "shape_differs", "not the same shape was measured")

    assert decide_scripts([1.0] * 3, [0.5] * 3, faults=[differs]).rule == "shape_differs"
    assert decide_scripts([1.0, 1.0], []).kind is INVALID
    assert decide_scripts([1.0, 1.0], [0.0, 0.0]).kind is INVALID
