"""The check of an output: its kind, its NaN and Inf, its errors by element and by row, against plain float64 arithmetic."""

from __future__ import annotations

import math
import struct

import pytest
import torch

from hotkernel_contract.compare import (
    STATISTICS,
    Expected,
    Tally,
    Tolerance,
    error_fault,
    same_pattern,
    shape_fault,
    statistics,
)
from hotkernel_contract.outputs import observe
from hotkernel_contract.target import Target

NAN, INF = math.nan, math.inf


def target(**changes: object) -> Target:
    return Target(**{"name": "t", "function": lambda x: x, "inputs": {"x": "8x4"}, "dtype": "fp32", **changes})  # type: ignore[arg-type]


def tolerance(dtype: torch.dtype, **changes: float) -> Tolerance:
    return Tolerance.of(target(**changes), dtype)


def seeded(seed: int = 11) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def found(output: torch.Tensor, answer: torch.Tensor, **changes: float) -> dict[str, float]:
    expected = Expected.of(answer, output.dtype)
    return dict(zip(STATISTICS, statistics(output, expected, tolerance(output.dtype, **changes)).tolist(), strict=True))


def fault_of(output: torch.Tensor, baseline: torch.Tensor, answer: torch.Tensor, **changes: float) -> str | None:
    """The rule that `output` breaks beside this baseline's output, or None."""
    limits = tolerance(output.dtype, **changes)
    expected = Expected.of(answer, output.dtype)
    tallies = []
    for out in (output, baseline):
        tally = Tally()
        tally.add([statistics(out, expected, limits).tolist()])
        tallies.append(tally)
    fault = error_fault(tallies[0], tallies[1], limits)
    return fault[0] if fault else None


def half(number: float) -> float:
    """What fp16 makes of a number, by the C library's own rounding."""
    try:
        return struct.unpack("e", struct.pack("e", number))[0]
    except OverflowError:
        return math.copysign(INF, number)


def plain_statistics(y: list[list[float]], e: list[list[float]], limits: Tolerance, most: float) -> list[float]:
    """The same figures, one number at a time, in Python's own float64."""
    mean_square = [math.fsum(v * v for v in row) / len(row) for row in e]
    rms = [math.sqrt(square) for square in mean_square]
    dust = 2e-2 * sorted(rms)[(len(rms) - 1) // 2]  # torch's median is the lower of two
    rms = [max(value, dust) for value in rms]
    bad, max_abs, max_rel, squared = 0, 0.0, 0.0, 0.0
    for y_row, e_row, row_rms in zip(y, e, rms, strict=True):
        errors = [abs(a - b) for a, b in zip(y_row, e_row, strict=True)]
        bad += sum(error > limits.rtol * abs(b) + limits.atol + limits.row * row_rms
                   for error, b in zip(errors, e_row, strict=True))
        max_abs, max_rel = max(max_abs, *errors), max(max_rel, max(errors) / row_rms)
        squared += math.fsum(error * error for error in errors) / len(errors) / row_rms**2 / limits.ulp**2
    assert max_abs < most
    return [bad, max_abs, max_rel, squared, len(y), len(y) * len(y[0])]


# Shape, dtype, strides ------------------------------------------------------------------------------------------------

WANTED = ((4, 8), "float32", (8, 1))


@pytest.mark.parametrize(("shape", "dtype", "strides", "rule"), [
    ((4, 8), "float32", (8, 1), None),
    ((8, 4), "float32", (4, 1), "wrong_shape"),
    ((4, 8, 1), "float32", (8, 1, 1), "wrong_shape"),
    ((32,), "float32", (1,), "wrong_shape"),
    ((4, 8), "float16", (8, 1), "wrong_dtype"),
    ((4, 8), "float64", (8, 1), "wrong_dtype"),
    ((4, 8), "float32", (1, 4), "wrong_strides"),
    ((4, 8), "float32", (0, 1), "wrong_strides"),
])
def test_an_output_must_be_of_the_baselines_kind(shape, dtype, strides, rule):
    fault = shape_fault(shape, dtype, strides, WANTED)

    assert (fault and fault[0]) == rule


def test_the_stride_of_a_dimension_of_one_means_nothing():
    assert shape_fault((1, 8), "float32", (999, 1), ((1, 8), "float32", (8, 1))) is None


def test_a_kinds_fault_shows_both_kinds():
    fault = shape_fault((8, 4), "float32", (4, 1), WANTED)

    assert fault is not None
    assert "[8, 4]" in fault[1]
    assert "[4, 8]" in fault[1]


# The figures ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_figures_are_what_plain_float64_arithmetic_says(seed):
    generator = seeded(seed)
    answer = torch.randn(24, 17, generator=generator, dtype=torch.float64)
    answer[3] = 0.0
    answer[5] *= 1e-9
    answer[7] *= 300.0
    output = answer.float() + 3e-5 * torch.randn(24, 17, generator=generator)
    output[9, 4] += 0.7
    limits = tolerance(torch.float32)
    plain = plain_statistics(output.double().tolist(), answer.tolist(), limits, most=1.0)

    got = statistics(output, Expected.of(answer, torch.float32), limits).tolist()

    assert plain[0] > 1
    assert got == pytest.approx(plain, rel=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_figures_of_half_precision_are_plain_arithmetics_to_the_references_precision(dtype):
    answer = torch.randn(24, 64, generator=seeded())
    output = (answer * 1.003).to(dtype)
    output[2, 3] += 5
    limits = tolerance(dtype)
    plain = plain_statistics(output.double().tolist(), answer.double().tolist(), limits, most=10.0)

    got = statistics(output, Expected.of(answer, dtype), limits).tolist()

    assert got[0] == plain[0] >= 1
    assert got == pytest.approx(plain, rel=1e-4)


def test_the_elements_own_tolerances_replace_the_dtypes():
    answer = torch.tensor([[1.0, 10.0]], dtype=torch.float64)
    output = torch.tensor([[1.05, 10.5]])

    assert found(output, answer)["bad"] == 2
    assert found(output, answer, rtol=0.04, atol=0.0)["bad"] == 2
    assert found(output, answer, rtol=0.0, atol=0.051)["bad"] == 1
    assert found(output, answer, rtol=0.051, atol=0.0)["bad"] == 0


@pytest.mark.parametrize(("dtype", "passes", "fails"), [
    (torch.bfloat16, 1.01, 1.05), (torch.float16, 1.002, 1.01), (torch.float32, 1 + 5e-5, 1 + 5e-4),
    (torch.float64, 1 + 5e-10, 1 + 5e-9),
])
def test_the_tolerance_of_one_element_follows_the_dtype(dtype, passes, fails):
    answer = torch.ones(4, 64, dtype=torch.float64 if dtype in (torch.float32, torch.float64) else torch.float32)

    def bad(factor: float) -> float:
        output = answer.clone().to(dtype)
        output[1, 5] = factor
        return found(output, answer)["bad"]

    assert bad(passes) == 0
    assert bad(fails) == 1


def test_an_output_of_a_scalar_and_of_one_dimension_is_one_row():
    assert found(torch.tensor(2.0), torch.tensor(2.0, dtype=torch.float64))["rows"] == 1
    assert found(torch.ones(7), torch.ones(7, dtype=torch.float64))["elements"] == 7


# Integers -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8, torch.bool])
def test_integers_and_booleans_must_be_equal(dtype):
    answer = torch.randint(0, 2, (16, 16), generator=seeded()).to(dtype)
    wrong = answer.clone()
    wrong[3, 3] = 1 - int(wrong[3, 3])

    assert found(answer.clone(), answer)["bad"] == 0
    assert found(wrong, answer)["bad"] == 1
    assert fault_of(wrong, answer, answer) == "wrong_values"
    assert fault_of(answer.clone(), answer, answer) is None


def test_no_tolerance_loosens_integers():
    answer = torch.arange(100, 116).view(4, 4)

    assert found(answer + 1, answer, rtol=0.5, atol=10.0)["bad"] == 16
    assert found(answer + 1, answer)["max_abs"] == 1


def test_rounded_integers_may_be_off_by_the_targets_steps_and_booleans_never():
    answer = torch.arange(100, 116, dtype=torch.int8).view(4, 4)

    assert found(answer + 1, answer, steps=1)["bad"] == 0
    assert found(answer + 2, answer, steps=1)["bad"] == 16
    assert found(~(answer > 107), answer > 107, steps=4)["bad"] == 16


@pytest.mark.parametrize(("share", "rule"), [(1 / 2700, None), (1 / 97, "less_precise"), (0.5, "less_precise")])
def test_integers_that_are_off_by_a_step_are_counted_and_held_against_the_baselines(share, rule):
    answer = torch.randint(-100, 100, (512, 1024), generator=seeded()).to(torch.int8)
    off = torch.rand(answer.shape, generator=seeded()) < share

    assert fault_of(answer + off.to(torch.int8), answer.clone(), answer, steps=1) == rule


# NaN and Inf ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_a_number_that_is_none_is_wrong_where_the_answer_is_finite(dtype, value):
    answer = torch.ones(8, 8, dtype=torch.float64 if dtype is torch.float32 else torch.float32)
    output = answer.to(dtype)
    output[2, 2] = value

    assert found(output, answer)["bad"] == 1
    assert fault_of(output, answer.to(dtype), answer) == "wrong_values"


@pytest.mark.parametrize(("value", "wrong"), [(NAN, 1), (INF, 0), (-INF, 1), (1.0, 1), (6e4, 1)])
def test_an_infinite_answer_must_be_infinite_with_its_sign(value, wrong):
    answer = torch.ones(8, 8)
    answer[2, 2] = INF
    output = answer.half()
    output[2, 2] = value

    assert found(output, answer)["bad"] == wrong


@pytest.mark.parametrize(("value", "wrong"), [(NAN, 0), (INF, 1), (0.0, 1)])
def test_an_answer_that_is_no_number_must_be_none(value, wrong):
    answer = torch.ones(8, 8)
    answer[2, 2] = NAN
    output = answer.bfloat16()
    output[2, 2] = value

    assert found(output, answer)["bad"] == wrong


def test_an_answer_beyond_fp16_must_overflow_and_one_within_must_not():
    answer = torch.full((4, 4), 7.0e4)
    answer[1] = 6.0e4
    right = torch.tensor([[half(v) for v in row] for row in answer.tolist()], dtype=torch.float16)
    clamped = right.clone().clamp_(-65504, 65504)

    assert torch.isinf(right).sum() == 12
    assert found(right, answer)["bad"] == 0
    assert found(clamped, answer)["bad"] == 12


def test_next_to_the_largest_number_an_honest_rounding_may_overflow_or_not():
    answer = torch.full((4, 4), 65504.0)
    answer[1] = 65530.0  # overflows as it is rounded
    early, late = torch.full((4, 4), INF, dtype=torch.float16), torch.full((4, 4), 65504.0, dtype=torch.float16)
    turned, far = -early, late.clone()
    far[1] = 60000.0

    assert found(early, answer)["bad"] == 0
    assert found(late, answer)["bad"] == 0
    assert found(turned, answer)["bad"] == 16
    assert found(far, answer)["bad"] == 4


def test_an_overflow_in_a_row_hides_no_error_beside_it():
    answer = torch.ones(4, 64)
    answer[0, 0] = 1e6
    output = answer.half()
    output[0, 5] = 1.5

    assert found(output, answer)["bad"] == 1


def test_patterns_are_held_together_element_by_element():
    e = torch.tensor([1.0, NAN, INF, -INF, 1e6, 0.0])
    y = torch.tensor([2.0, NAN, INF, -INF, INF, -0.0], dtype=torch.float16)

    assert same_pattern(y, e).tolist() == [True] * 6
    assert same_pattern(torch.tensor([NAN, 1.0, -INF, INF, 6e4, INF], dtype=torch.float16), e).tolist() == [False] * 6


# Rows -----------------------------------------------------------------------------------------------------------------


def test_a_row_of_zeros_admits_rounding_dust_and_nothing_more():
    answer = torch.randn(64, 64, generator=seeded(), dtype=torch.float64)
    answer[5] = 0.0
    dusty, wrong = answer.float(), answer.float()
    dusty[5] = 1e-9
    wrong[5, 7] = 1e-3

    assert found(dusty, answer)["bad"] == 0
    assert found(wrong, answer)["bad"] == 1


def test_what_cancels_may_be_an_ulp_of_what_cancelled_off_and_is_no_licence_for_zeros():
    x = torch.randn(64, 512, generator=seeded())
    x[5] -= 6.5  # a gelu of it is next to nothing, made of 1 + erf
    x[6] *= 1e-4
    answer, output = torch.nn.functional.gelu(x.double()), 0.5 * x * (1 + torch.erf(x * 0.5**0.5))
    zeroed = output.clone()
    zeroed[6] = 0.0

    assert (output[5].double() - answer[5]).abs().max() > 7e-8  # the median row has 0.6
    assert fault_of(output, output, answer) is None
    assert fault_of(zeroed, output, answer) == "wrong_values"


@pytest.mark.parametrize("shape", [(0, 8), (8, 0), (0,)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_an_empty_output_has_nothing_wrong_in_it(shape, dtype):
    assert set(found(torch.empty(shape, dtype=dtype), torch.empty(shape, dtype=dtype)).values()) == {0.0}


def test_a_small_row_is_held_to_its_own_size():
    answer = torch.randn(64, 64, generator=seeded())
    answer[5] *= 0.01
    output = answer.bfloat16()
    output[5] = (answer[5] * 1.2).bfloat16()

    assert found(output, answer)["bad"] > 0


def test_a_whole_answer_of_zeros_is_right_as_zeros_and_wrong_as_anything_else():
    answer = torch.zeros(8, 8, dtype=torch.float64)
    output = torch.zeros(8, 8)

    assert fault_of(output, output, answer) is None
    assert fault_of(output + 1e-3, output, answer) == "wrong_values"


# Precision against the baseline's -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_one_more_rounding_is_honest_and_two_more_are_not(dtype):
    generator = seeded()
    x, w = torch.randn(256, 512, generator=generator), torch.rand(512, generator=generator) + 0.5
    answer = (x * 1.7 + 0.3) * w
    once = answer.to(dtype)
    twice = ((x * 1.7 + 0.3).to(dtype).float() * w).to(dtype)
    thrice = (((x * 1.7).to(dtype).float() + 0.3).to(dtype).float() * w).to(dtype)

    assert found(thrice, answer)["bad"] == 0
    assert fault_of(twice, once, answer) is None
    assert fault_of(thrice, once, answer) == "less_precise"


def test_another_order_of_additions_is_no_loss_of_precision():
    x = torch.randn(64, 4096, generator=seeded())
    answer = x.double().cumsum(-1)
    forwards = x.cumsum(-1)
    blocks = torch.cat([x[:, :2048].cumsum(-1), x[:, :2048].sum(-1, keepdim=True) + x[:, 2048:].cumsum(-1)], -1)

    assert fault_of(blocks, forwards, answer) is None


def test_trimmed_mantissas_are_less_precise():
    answer = torch.randn(64, 512, generator=seeded())
    once = answer.bfloat16()
    trimmed = (once.view(torch.int16) & ~1).view(torch.bfloat16)

    assert fault_of(trimmed, once, answer) == "less_precise"


def test_few_numbers_do_not_tell_one_more_rounding_from_two():
    """The baseline may have been lucky; with many numbers the same ratio is no luck."""
    limits = tolerance(torch.bfloat16)

    def rule(count: int) -> str | None:
        lucky, mine = (Tally(count, 0, 0.0, 0.0, 0.0, ulps**2 * count, count, count) for ulps in (0.12, 0.3))
        fault = error_fault(mine, lucky, limits)
        return fault[0] if fault else None

    assert rule(3) is None
    assert rule(10_000) == "less_precise"


def test_an_output_that_is_much_smaller_than_the_inputs_is_taken_for_sums_of_them():
    made = target(function=lambda x: x.sum(-1), inputs={"x": "8x8192"}, device="cpu")
    (limits,) = observe(made, "cpu").tolerances(made)

    assert limits == Tolerance.of(target(reduction=8192), torch.float32)
    assert limits.floor_ulps > tolerance(torch.float32).floor_ulps


def test_the_ratio_is_the_targets_to_widen():
    answer = torch.randn(64, 512, generator=seeded())
    once = answer.bfloat16()
    trimmed = (once.view(torch.int16) & ~1).view(torch.bfloat16)

    assert fault_of(trimmed, once, answer, max_error_ratio=8.0) is None


def test_a_more_precise_candidate_is_right_beside_a_coarse_baseline():
    answer = torch.randn(64, 512, generator=seeded())
    once = answer.bfloat16()
    coarse = (once.view(torch.int16) & ~3).view(torch.bfloat16)

    assert fault_of(once, coarse, answer) is None


def test_a_tally_remembers_a_wrong_output_among_many_right_ones():
    answer = torch.randn(16, 16, generator=seeded(), dtype=torch.float64)
    limits, expected = tolerance(torch.float32), Expected.of(answer, torch.float32)
    right = statistics(answer.float(), expected, limits).tolist()
    output = answer.float()
    output[0, 0] += 3
    wrong = statistics(output, expected, limits).tolist()
    tally = Tally()

    assert tally.add([right] * 5) == 0
    assert tally.add([right, wrong]) == 1
    assert tally.add([right]) == 0
    assert (tally.outputs, tally.bad_outputs) == (8, 1)
    fault = error_fault(tally, Tally(), limits)
    assert fault is not None
    assert fault[0] == "wrong_values"
    assert "1 of 8 outputs" in fault[1]


def test_a_side_with_no_output_yet_has_no_error():
    assert Tally().rms_ulps is None
    assert error_fault(Tally(), Tally(), tolerance(torch.float32)) is None


def test_the_small_numbers_of_a_vector_are_not_hidden_by_the_large_ones():
    answer = torch.randn(2048, generator=seeded(), dtype=torch.float32).abs() + 5.0
    answer[::9] *= 256  # as of rows that the mixture scales
    baseline = answer.to(torch.bfloat16)
    coarse = torch.where(answer < 20, torch.full_like(answer, 5.8), answer).to(torch.bfloat16)  # within 2 % of the vector's RMS

    assert found(coarse, answer)["bad"] == 0
    assert fault_of(coarse, baseline, answer) == "less_precise"
    assert fault_of(baseline.clone(), baseline, answer) is None


def test_a_few_numbers_of_a_vector_that_cancelled_are_no_loss_of_precision():
    answer = torch.randn(4096, generator=seeded(), dtype=torch.float64)
    output = answer.to(torch.float32)
    output[:40] += 1e-5  # of terms a hundred times as large as what is left

    assert fault_of(output, answer.to(torch.float32), answer) is None


def test_the_numbers_of_a_very_long_vector_are_compared_by_a_sample():
    answer = torch.randn(1 << 18, generator=seeded(), dtype=torch.float32)

    assert found(answer.to(torch.bfloat16), answer)["rows"] == (1 << 16) - (1 << 16) // 32


def test_the_layout_of_an_output_without_elements_means_nothing():
    assert shape_fault((4, 0), "torch.float32", (1, 1), ((4, 0), "torch.float32", (512, 1))) is None
