"""Half of a pair's values are enough where all of them say the same plain thing; never on the strength of noise."""

from __future__ import annotations

import random

import pytest

from hotkernel.harness.values import is_plain
from hotkernel.schema.verdict import Batch, Side, Stage


def batches(ratios: list[float], *, baseline_us: float = 100.0, calls: tuple[int, int] = (2, 10), overhead_us: float = 40.0,
            void: str | None = None) -> list[Batch]:
    found = []
    for value, ratio in enumerate(ratios):
        sides = [(Side.BASELINE, baseline_us), (Side.CANDIDATE, baseline_us / ratio)]
        for side, us in sides[:: 1 if value % 2 else -1]:
            found += [Batch(side, Stage.LOOK, 0, value, n, overhead_us + n * us, 0.0, void=void) for n in calls[:: -1]]
    return found


@pytest.mark.parametrize("ratios", [[12.4, 12.6, 12.5, 12.7], [1.5, 1.52, 1.48, 1.51], [0.5, 0.51, 0.49, 0.5], [3.0, 3.1]])
def test_values_that_agree_on_a_large_ratio_are_enough_either_way_round(ratios):
    assert is_plain(batches(ratios))


@pytest.mark.parametrize("ratios", [
    [1.02, 1.02, 1.02, 1.02],  # a small gain takes them all
    [1.5, 1.5, 1.5, 0.7],  # one says the opposite
    [1.5, 2.5, 1.3, 1.9],  # they do not agree by how much
    [1.5],  # one is none
    [],
])
def test_small_or_disagreeing_ratios_are_not_enough(ratios):
    assert not is_plain(batches(ratios))


def test_void_values_do_not_count():
    assert not is_plain(batches([3.0, 3.0, 3.0, 3.0], void="late"))


def test_equal_sides_under_heavy_noise_are_hardly_ever_plain():
    chance = random.Random(4)
    plain = sum(is_plain(batches([chance.lognormvariate(0, 0.2) for _ in range(4)])) for _ in range(2_000))

    assert plain < 10
