"""A target that cannot judge is refused before it judges; one that can is not, whatever its output looks like."""

from __future__ import annotations

import pytest
import torch

from hotkernel_contract.selftest import PROBES, refuse_weak
from hotkernel_contract.target import Target, TargetError


def rmsnorm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(x.dtype) * w


def target(function, inputs=None, **changes) -> Target:
    return Target(**{"name": "t", "function": function, "inputs": inputs or {"x": "64x128"}, "dtype": "fp32",
                     "device": "cpu", **changes})


def try_target(made: Target) -> None:
    refuse_weak(made, "cpu")


def test_a_check_that_takes_the_answer_to_other_inputs_is_refused():
    """A mean over many normal numbers is nearly the same whatever they are."""
    averaged = target(lambda x: x.float().pow(2).mean().to(x.dtype), {"x": "2048x2048"}, dtype="bf16", mixture="normal")
    with pytest.raises(TargetError, match="the answer to other inputs"):
        try_target(averaged)


@pytest.mark.parametrize("numbers", [300_000, 1_000_000])
def test_a_mean_over_many_numbers_can_be_judged_although_it_is_one(numbers):
    """Room for sums in another order is less than half the mantissa of the one number."""
    try_target(target(lambda x: (x * x).mean(), {"x": str(numbers)}, mixture="normal"))


def test_a_mean_of_which_a_part_may_be_left_unread_is_refused_until_it_says_how_it_sums():
    def energy(x):
        return (x * x + 20).mean()

    with pytest.raises(TargetError, match="one number in 32 is another"):
        try_target(target(energy, {"x": "1000000"}, mixture="normal"))
    try_target(target(energy, {"x": "1000000"}, mixture="normal", reduction=1024))


@pytest.mark.parametrize("function", [
    lambda x: x.max(), lambda x: x.amax(-1), lambda x: x.sum(0), lambda x: x.pow(2).mean(-1), lambda x: x.logsumexp(-1)])
def test_what_most_numbers_do_not_make_and_what_differs_from_row_to_row_can_be_judged(function):
    try_target(target(function, {"x": "64x4096"}, mixture="normal"))


def test_a_function_that_hands_out_one_buffer_is_tried_by_what_lay_in_it():
    buffer = torch.empty(64, 128)
    try_target(target(lambda x: torch.mul(x, 2, out=buffer), reuses_output=True))


def test_an_output_of_one_dimension_can_be_judged_in_the_references_own_dtype():
    try_target(target(lambda x: x.logsumexp(-1), dtype="fp64"))


def test_an_empty_output_beside_others_is_nothing_to_refuse():
    try_target(target(lambda x: (x * 2, x[:0] * 2, None)))


def test_an_output_that_is_the_same_for_all_inputs_is_a_right_one():
    try_target(target(lambda x: (x * 2, torch.arange(4)), {"x": "64x128"}))


# Refused --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reference", "says"), [
    (lambda x: torch.full_like(x, 3.0), "one constant"),
    (lambda x: torch.zeros_like(x), "one constant"),
    (lambda x: torch.full_like(x, float("nan")), "no finite number"),
    (lambda x: torch.full_like(x, float("inf")), "no finite number"),
    (lambda x: x.sum(-1), "returns shape"),
    (lambda x: x[:, :64], "returns shape"),
    (lambda x: (x, x), r"reference returns output\[0\], output\[1\], the function output"),
])
def test_a_reference_that_cannot_judge_is_refused(reference, says):
    with pytest.raises(TargetError, match=says):
        try_target(target(lambda x: x * 2, reference=reference))


def test_a_function_that_returns_no_tensor_is_refused():
    with pytest.raises(TargetError, match="float, not a tensor"):
        try_target(target(lambda x: [x * 2, 1.0]))


@pytest.mark.parametrize("deaf", ["x", "w"])
def test_a_reference_that_is_deaf_to_an_input_is_refused_by_that_inputs_name(deaf):
    heard = {"x": lambda x, w: w.repeat(64, 1) * 2, "w": lambda x, w: x * 2}[deaf]

    with pytest.raises(TargetError, match=f"does not depend on input {deaf}"):
        try_target(target(heard, {"x": "64x128", "w": "128"}))


def test_a_baseline_that_fails_its_own_check_is_refused_with_what_to_do():
    with pytest.raises(TargetError, match=r"baseline fails its own check.*better reference"):
        try_target(target(lambda x: torch.exp(x * 0.001), reference=lambda x: torch.exp(x * 0.002), mixture="normal"))


@pytest.mark.parametrize("wide", [{"atol": 1e9}, {"rtol": 10.0, "atol": 10.0}, {"rtol": 1.5}])
def test_tolerances_that_would_pass_a_wrong_answer_are_refused(wide):
    with pytest.raises(TargetError, match="too wide"):
        try_target(target(rmsnorm, {"x": "64x128", "w": "128"}, max_error_ratio=1e9, **wide))


def test_a_reference_that_is_constant_over_a_fixed_mask_alone_is_refused():
    with pytest.raises(TargetError, match="one constant"):
        try_target(target(lambda x: x > -1e9, {"x": "64x128"}))


# Probes, one by one ---------------------------------------------------------------------------------------------------

RIGHT = torch.randn(64, 128, generator=torch.Generator().manual_seed(5))
X = torch.randn(64, 128, generator=torch.Generator().manual_seed(6))


@pytest.mark.parametrize("name", PROBES)
def test_every_probe_is_another_answer_of_the_same_kind(name):
    wrong = PROBES[name](RIGHT, [X])

    assert wrong.shape == RIGHT.shape
    assert wrong.dtype == RIGHT.dtype
    assert not torch.equal(wrong, RIGHT)


@pytest.mark.parametrize("name", PROBES)
def test_no_probe_touches_the_right_answer(name):
    kept = RIGHT.clone()
    PROBES[name](RIGHT, [X])

    assert torch.equal(kept, RIGHT)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_a_wrong_element_of_integers_is_one_element(dtype):
    right = torch.randint(0, 2, (16, 16), generator=torch.Generator().manual_seed(5)).to(dtype)

    assert int((PROBES["one wrong element"](right, []) != right).sum()) == 1


@pytest.mark.parametrize(("number", "off"), [(1.0, 2**-12), (1.0 + 2**-4 + 2**-20, 2**-12), (1.0 + 2**-12, 2**-12)])
def test_half_the_mantissa_is_wrong_by_as_much_whatever_the_number(number, off):
    right = torch.tensor([number])
    wrong = PROBES["half the mantissa"](right, [])

    assert (wrong - right).abs().item() == off


# Accepted -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("function", "inputs", "dtype"), [
    (rmsnorm, {"x": "64x128", "w": "128"}, "fp32"),
    (rmsnorm, {"x": "64x128", "w": "128"}, "bf16"),
    (lambda x: x.clone(), None, "fp32"),
    (lambda x: x.clone(), None, "bf16"),
    (lambda x: torch.softmax(x.float(), -1).to(x.dtype), None, "fp16"),
    (lambda x: torch.relu(x), None, "fp32"),
    (lambda x: x.abs().sum(), {"x": "64x128"}, "fp32"),
    (lambda x: x.amax(-1), None, "fp32"),
    (lambda x: x.tril(), {"x": "64x64"}, "fp32"),
    (lambda x: x.t().clone(), {"x": "64x32"}, "fp32"),
    (lambda x: torch.log(x), None, "fp32"),
    (lambda x, y: x @ y, {"x": "64x64", "y": "64x32"}, "fp32"),
], ids=["rmsnorm", "rmsnorm-bf16", "copy", "copy-bf16", "softmax", "relu", "sum", "max", "tril", "transposed", "log", "matmul"])
def test_an_honest_target_is_accepted(function, inputs, dtype):
    made = target(function, inputs, dtype=dtype)
    for _ in range(5):
        try_target(made)


def test_a_tail_that_is_next_to_nothing_beside_the_rest_is_no_probe():
    right = torch.full((64,), 300.0)
    right[-1] = 1e-3

    assert torch.equal(PROBES["an unwritten tail"](right, []), right)


def test_a_copy_is_judged_though_the_input_is_the_answer():
    made = target(lambda x: x.clone())
    right = X

    assert torch.equal(PROBES["the input itself"](right, [X]), right)
    try_target(made)


def test_integer_outputs_are_judged():
    made = target(lambda x: torch.argsort(x, -1), reference=lambda x: torch.argsort(x, -1), mixture="normal")
    try_target(made)


def test_a_gather_with_integer_inputs_is_judged():
    made = target(lambda table, at: table[at], {"table": "256x32", "at": "64:int64<256"}, rotate=("at",))
    try_target(made)


def test_answers_that_are_nan_in_places_are_judged():
    with torch.no_grad():
        assert torch.isnan(torch.log(X)).any()
    try_target(target(lambda x: torch.log(x)))
