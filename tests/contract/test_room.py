"""How wide a default tolerance by element becomes where the baseline itself comes near to it."""

from __future__ import annotations

import pytest
import torch

from hotkernel_contract.compare import Expected, Tolerance, statistics
from hotkernel_contract.room import MOST, WIDEST, with_room
from hotkernel_contract.selftest import refuse_weak
from hotkernel_contract.target import Target

PLAIN = Target(name="t", function=torch.clone, inputs={"x": "4x4"}, device="cpu")
ROWS, COLUMNS = 1024, 1024  # one number is a millionth
BF16 = Tolerance(rtol=0.02, atol=0.0, row=0.02, ulp=2.0**-8, max_error_ratio=1.58, floor_ulps=0.25)


def off_by(share: float, count: int = 1) -> tuple[list[torch.Tensor], list[Expected]]:
    """An fp32 output of which some numbers are off by this share of what is allowed."""
    answer = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(3))
    expected = Expected.of(answer, torch.float32)
    output = answer.clone()
    allowed = answer.abs() * BF16.rtol + expected.row_rms * BF16.row
    output.view(-1)[:count] += share * allowed.view(-1)[:count]
    return [output], [expected]


@pytest.mark.parametrize(("share", "factor"), [(0.0, 1.0), (0.4, 1.0), (0.6, 1.2), (0.95, 1.9), (1.2, 2.4), (1.6, 3.0),
                                               (2.4, 3.0)])
def test_there_is_room_for_twice_the_baselines_largest_error(share, factor):
    (found,) = with_room(PLAIN, [BF16], [off_by(0.0), off_by(share)])

    assert (found.rtol, found.row) == pytest.approx((0.02 * factor, 0.02 * factor), rel=1e-3)
    assert (found.max_error_ratio, found.floor_ulps, found.ulp) == (1.58, 0.25, BF16.ulp)


@pytest.mark.parametrize(("share", "count"), [(1.2, 4), (MOST + 0.1, 1), (float("nan"), 0)])
def test_a_baseline_that_is_wrong_more_often_or_by_more_gets_none(share, count):
    assert with_room(PLAIN, [BF16], [off_by(share, count)] if count else [off_by(0.0)]) == [BF16]


def test_what_is_not_finite_and_whole_numbers_ask_for_nothing():
    answer = torch.tensor([[1.0, float("inf"), float("nan"), 2.0]])
    exact = Tolerance(0.0, 0.0, 0.0, 1.0, 1.0, 0.0)
    whole = torch.arange(4).reshape(1, 4)

    right = [Expected.of(answer, torch.float32), Expected.of(whole, torch.int64)]
    assert with_room(PLAIN, [BF16, exact], [([answer, whole], right)]) == [BF16, exact]


def turned(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def test_a_difference_of_rounded_products_has_room_and_its_own_tolerance_stays():
    shapes = {"x": "64x256x128", "cos": "256x128", "sin": "256x128"}
    (found,) = refuse_weak(Target(name="t", function=turned, inputs=shapes, dtype="bf16", device="cpu"), "cpu")
    few = {"x": "2x64x128", "cos": "64x128", "sin": "64x128"}  # without room one number in some hundred million is beyond
    (own,) = refuse_weak(Target(name="t", function=turned, inputs=few, dtype="bf16", device="cpu", rtol=0.05), "cpu")

    assert 0.02 < found.rtol <= 0.02 * WIDEST
    assert own.rtol == 0.05


def test_numbers_that_are_wrong_are_wrong_with_all_the_room_there_may_be():
    (found,) = with_room(PLAIN, [BF16], [off_by(MOST - 0.1)])
    (output,), (expected,) = off_by(WIDEST + 0.1)

    assert statistics(output, expected, found)[0] == 1
