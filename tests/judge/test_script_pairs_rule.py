"""Script pairs: what rounds of runs say, and how often they err while the machine drifts. Seeds are fixed.

`python tests/judge/test_script_pairs_rule.py 20000` prints the table of docs/verdict.md, with so many comparisons a row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from hotkernel.judge.script_rounds import decide_scripts, estimate
from hotkernel.schema.verdict import Fault, VerdictKind

FASTER, SLOWER, INCONCLUSIVE = VerdictKind.FASTER, VerdictKind.SLOWER, VerdictKind.INCONCLUSIVE
INVALID = VerdictKind.INVALID
COMPARISONS, ROUNDS, NOISE = 2000, 7, 0.01
FALSE_FASTER, POWER = 0.01, 0.9
Generator = np.random.Generator
Drift = Callable[[Generator, int], np.ndarray]  # the log of the machine's slowness at each run, in order
DRIFTS: dict[str, Drift] = {
    "a steady machine": lambda rng, runs: np.zeros(runs),
    "4 % slower from the first run to the last": lambda rng, runs: np.linspace(0, 0.04, runs),
    "4 % faster from the first run to the last": lambda rng, runs: np.linspace(0, -0.04, runs),
    "10 % slower while it warms up": lambda rng, runs: 0.1 * (1 - np.exp(-np.arange(runs) / 3)),
    "a random walk of 1 % a run": lambda rng, runs: np.cumsum(rng.normal(0, 0.01, runs)),
    "a step of 5 % at some run": lambda rng, runs: 0.05 * (np.arange(runs) >= rng.integers(1, runs)),
    "steps of 5 % up and down, one run in five": lambda rng, runs: 0.05 * (np.cumsum(rng.random(runs) < 0.2) % 2),
    "one run in ten slower by a fifth": lambda rng, runs: 0.2 * (rng.random(runs) < 0.1),
}


def compared(drift: Drift, rng: Generator, gain: float = 0.0, noise: float = NOISE) -> VerdictKind:
    """One comparison as script pairs are run: both scripts in turn, the first of each two changing every time."""
    slowness = (drift(rng, 2 * ROUNDS) + rng.normal(0, noise, 2 * ROUNDS)).reshape(ROUNDS, 2)
    slowness[1::2] = slowness[1::2, ::-1].copy()  # the candidate went first there
    baseline, candidate = np.exp(slowness[:, 0]), np.exp(slowness[:, 1]) / (1 + gain)
    return decide_scripts(baseline.tolist(), candidate.tolist()).kind


def share_of_faster(drift: Drift, comparisons: int, **given: float) -> float:
    rng = np.random.default_rng(20261130)
    return sum(compared(drift, rng, **given) is FASTER for _ in range(comparisons)) / comparisons


def test_scripts_far_apart_are_told_apart_and_alike_ones_are_not():
    noisy_b, noisy_c = [1.0, 1.2, 0.9, 1.1, 1.0, 0.8, 1.0], [1.0, 0.9, 1.1, 0.95, 0.8, 1.0, 0.9]

    assert decide_scripts([2.0, 2.01, 1.99], [1.0, 1.01, 0.99]).kind is FASTER
    assert decide_scripts([1.0, 1.01, 0.99], [2.0, 2.01, 1.99]).kind is SLOWER
    assert decide_scripts(noisy_b, noisy_c).kind is INCONCLUSIVE
    assert decide_scripts([1.0] * 50, [1.0] * 50).equivalent is True


@pytest.mark.parametrize("name", DRIFTS)
@pytest.mark.parametrize("noise", [NOISE, NOISE / 20])
def test_equal_scripts_are_hardly_ever_faster_however_the_machine_drifts(name, noise):
    assert share_of_faster(DRIFTS[name], COMPARISONS, noise=noise) <= FALSE_FASTER


@pytest.mark.parametrize("name", [each for each in DRIFTS if "in " not in each])
def test_five_percent_are_found_where_runs_spread_by_one(name):
    assert share_of_faster(DRIFTS[name], COMPARISONS, gain=0.05) >= POWER


def test_a_steady_drift_takes_nothing_from_the_estimate():
    runs = [1.01**number for number in range(6)]  # b c c b b c
    found = estimate([runs[0], runs[3], runs[4]], [each / 2 for each in (runs[1], runs[2], runs[5])])

    assert found.speedup == pytest.approx(2.0, abs=1e-12)
    assert found.interval == pytest.approx((2.0, 2.0), rel=0.01)


def test_the_verdict_and_its_interval_say_the_same():
    base = [10.0, 11.0, 12.0, 11.0, 10.0]
    for gain in (0.002, 0.004, 0.006, 0.02, 0.2):
        found = decide_scripts(base, [ms * (1 - gain) * (1 + (-1) ** (at // 2) * 0.003) for at, ms in enumerate(base)])
        assert found.interval is not None
        assert found.speedup is not None
        assert (found.kind is FASTER) == (found.interval[0] > 1 and found.speedup >= 1.005)


@pytest.mark.parametrize("count", [1, 2])
def test_so_few_rounds_that_nobody_knows_their_spread_decide_nothing(count):
    found = decide_scripts([1.0] * count, [0.5] * count)

    assert (found.kind, found.interval, found.smallest_effect_pct) == (INCONCLUSIVE, None, None)
    assert found.speedup == pytest.approx(2.0)
    assert "fewer than 3 rounds" in found.reason


def test_script_pairs_refuse_what_did_not_measure_the_same():
    differs = Fault(INVALID, "shape_differs", "not the same shape was measured")

    assert decide_scripts([1.0] * 3, [0.5] * 3, faults=[differs]).rule == "shape_differs"
    assert decide_scripts([1.0, 1.0], []).kind is INVALID
    assert decide_scripts([1.0, 1.0], [0.0, 0.0]).kind is INVALID


def table(comparisons: int) -> Iterator[tuple[str, float, float]]:
    """Drift, false `faster` of equal scripts, 5 % found."""
    for name, drift in DRIFTS.items():
        yield name, share_of_faster(drift, comparisons), share_of_faster(drift, comparisons, gain=0.05)


if __name__ == "__main__":
    for drift_name, *shares in table(int(sys.argv[1])):
        print("|", " | ".join((drift_name, *(f"{100 * share:.2f} %" for share in shares))), "|", flush=True)
