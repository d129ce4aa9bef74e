"""The secrets of a batch: drawn anew, each with its own right answer, some almost alike, and nothing kept of the last."""

from __future__ import annotations

import pytest
import torch

from hotkernel_contract import pool as pools
from hotkernel_contract.outputs import observe
from hotkernel_contract.pool import Pool
from hotkernel_contract.target import Target, wide_for


def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * w


def target(function=scaled, **changes) -> Target:
    return Target(**{"name": "t", "function": function, "inputs": {"x": "32x16", "w": "16"}, "dtype": "fp32", "device": "cpu",
                     **changes})


def drawn(made: Target, size: int = 12) -> Pool:
    pool = Pool(made, "cpu", [next(iter(made.raws.values())).dtype])
    pool.draw(size)
    return pool


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "fp16"])
def test_every_entry_has_the_reference_of_its_own_inputs(dtype):
    made = target(dtype=dtype)
    pool = drawn(made)
    wide = wide_for(made.raws["x"].dtype)

    assert len(pool.rotated) == len(pool.expected) == 12
    for at, (expected,) in enumerate(pool.expected):
        answer = scaled(*(x.to(wide) for x in pool.inputs(at).values()))
        assert torch.equal(expected.value, answer)


def test_what_streams_is_another_in_every_entry_and_what_is_shared_is_one():
    pool = drawn(target())
    streamed = [pool.inputs(at)["x"] for at in range(12)]

    assert not any(torch.equal(a, b) for at, a in enumerate(streamed) for b in streamed[at + 1:])
    assert all(pool.inputs(at)["w"] is pool.inputs(0)["w"] for at in range(12))


def test_a_new_drawing_keeps_nothing_of_the_last():
    pool = drawn(target())
    before = [pool.inputs(at) for at in range(12)]
    pool.draw(5)

    assert len(pool.rotated) == len(pool.expected) == 5
    for at in range(5):
        assert not any(torch.equal(pool.inputs(at)["x"], old["x"]) for old in before)
    assert not torch.equal(pool.inputs(0)["w"], before[0]["w"])


@pytest.mark.parametrize("inputs", [{"x": "32x16", "w": "16"}, {"x": "32x16:int64<9", "w": "16:bool"},
                                    {"x": "32x16:perm", "w": "16:fp8_e4m3"}], ids=["floats", "whole", "permutations"])
def test_a_drawing_comes_again_as_it_was(inputs, monkeypatch):
    monkeypatch.setattr(pools, "NEAR_COPY_ONE_IN", 2)
    pool = drawn(target(lambda x, w: x * w.to(x.dtype), inputs=inputs))
    number, before = len(pool.recipes) - 1, [pool.inputs(at) for at in range(12)]
    right = [each.value for (each,) in pool.expected]
    pool.draw(5)
    pool.draw(0, again=number)

    again = [pool.inputs(at) for at in range(12)]
    assert all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for one, other in zip(before, again, strict=True)
               for a, b in zip(one.values(), other.values(), strict=True))
    assert all(torch.equal(each.value, old) for (each,), old in zip(pool.expected, right, strict=True))


def test_no_seed_of_the_program_decides_a_drawing():
    drawings = []
    for _ in range(2):
        torch.manual_seed(0)
        drawings.append(drawn(target(), 1).inputs(0)["x"])

    assert not torch.equal(*drawings)


def test_a_drawing_leaves_the_programs_own_random_numbers_alone():
    torch.manual_seed(0)
    expected = torch.rand(4)
    torch.manual_seed(0)
    drawn(target())

    assert torch.equal(torch.rand(4), expected)


def test_some_entries_almost_repeat_the_one_before(monkeypatch):
    monkeypatch.setattr(pools, "NEAR_COPY_ONE_IN", 2)
    pool = drawn(target(), 40)
    differing = [int((pool.inputs(at)["x"] != pool.inputs(at - 1)["x"]).sum()) for at in range(1, 40)]

    assert 5 < sum(1 <= count <= 4 for count in differing) < 35
    assert 0 not in differing


def test_a_near_copy_has_an_answer_of_its_own(monkeypatch):
    monkeypatch.setattr(pools, "NEAR_COPY_ONE_IN", 1)
    made = target(function=lambda x, w: x * 2 + w)
    pool = drawn(made, 6)

    for at in range(6):
        inputs = [x.double() for x in pool.inputs(at).values()]
        assert torch.equal(pool.expected[at][0].value, inputs[0] * 2 + inputs[1])


def test_derived_inputs_are_what_the_call_takes_and_the_reference_sees():
    def derive(raw):
        return {"q": (raw["x"] * 8).round().to(torch.int8), "scale": raw["w"].abs() + 1}

    def reference(q, scale):
        return q.double() * scale.double()

    made = target(function=lambda q, scale: q * scale, derive=derive, takes=("q", "scale"), reference=reference)
    pool = drawn(made)

    assert list(pool.inputs(0)) == ["q", "scale"]
    assert pool.inputs(0)["q"].dtype is torch.int8
    assert all(pool.inputs(at)["scale"] is pool.inputs(0)["scale"] for at in range(12))
    for at in range(12):
        assert torch.equal(pool.expected[at][0].value, reference(**pool.inputs(at)))


def test_a_decoy_is_a_call_of_the_baseline_that_hands_out_no_input_of_its_own():
    seen = observe(target(), "cpu")

    assert list(seen.inputs) == ["x", "w"]
    assert torch.equal(seen.outputs["output"], scaled(**seen.inputs))
    changing = observe(target(function=lambda x, w: x.mul_(0).add_(w), writes="x"), "cpu")
    assert changing.inputs["x"].any()
