"""Inputs of every draw and layout, calls with constants, modules and gradients, outputs and where they may lie."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
import torch

from hotkernel_contract.call import Call, NotTensors
from hotkernel_contract.compare import Tolerance
from hotkernel_contract.inputs import draw, nearly_copy
from hotkernel_contract.loading import load_tensor
from hotkernel_contract.outputs import Kind, batch_fault, observe, share_bytes
from hotkernel_contract.pool import Pool
from hotkernel_contract.protocol import ARENA, OutputAt
from hotkernel_contract.rounds import KINDS, kinds_for
from hotkernel_contract.selftest import refuse_weak, rounds_for
from hotkernel_contract.slots import HostArena, lay_out, views
from hotkernel_contract.spec import Input, TargetError
from hotkernel_contract.target import Target


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def target(function=twice, inputs=None, **changes) -> Target:
    return Target(**{"name": "t", "function": function, "inputs": inputs or {"x": "16x32"}, "dtype": "fp32", "device": "cpu",
                     **changes})


def drawn(spec: str, dtype: str = "fp32", count: int = 1) -> list[torch.Tensor]:
    made, generator = target(lambda x: x, {"x": spec}, dtype=dtype), torch.Generator().manual_seed(7)
    return [draw(made, generator, "cpu", ("x",))["x"] for _ in range(count)]


# Draws ----------------------------------------------------------------------------------------------------------------


def test_a_permutation_has_every_number_once_in_each_row():
    (integers,), (floats,), (half,) = drawn("8x64:int32:perm"), drawn("8x64:perm"), drawn("4x256:bf16:perm")

    assert all(row.sort().values.tolist() == list(range(64)) for row in integers)
    assert all(len(set(row.tolist())) == 64 for row in floats)
    assert all(len(set(row.tolist())) == 256 for row in half)


def test_what_is_sorted_one_hot_ragged_or_in_bounds_is_so():
    (ordered,), (hot,), (lengths,), (offsets,) = (
        drawn("8x50:int64<99:sorted"), drawn("8x50:onehot"), drawn("9:int32:lengths=40"), drawn("9:int64:offsets=40"))

    assert torch.equal(ordered, ordered.sort(-1).values)
    assert torch.equal(hot.sum(-1), torch.ones(8))
    assert int(lengths.sum()) == 40
    assert int(lengths.min()) >= 1
    assert (int(offsets[0]), int(offsets[-1])) == (0, 40)
    assert bool((offsets.diff() >= 0).all())
    assert 0 < float(drawn("64x64:unit")[0].min()) <= float(drawn("64x64:unit")[0].max()) < 1
    assert float(drawn("64x64:positive")[0].min()) > 0


def test_a_masks_share_is_what_was_asked_for():
    assert float(drawn("256x256:bool:share=0.1")[0].float().mean()) == pytest.approx(0.1, abs=0.01)


@pytest.mark.parametrize(("spec", "strides"), [
    ("16x8:transposed", (1, 16)), ("2x16x8:transposed", (128, 1, 16)), ("16x8:sliced", (24, 1)), ("scalar", ())])
def test_an_input_lies_in_memory_as_it_is_declared_in_every_slot_too(spec, strides):
    (x,) = drawn(spec)
    fields, size = lay_out({"x": x}, {"x": 3})
    slots = views(HostArena(size).base, fields[0])
    for slot in slots:
        slot.copy_(x)

    assert x.stride() == strides
    assert all(slot.stride() == strides and torch.equal(slot, x) for slot in slots)


@pytest.mark.parametrize(("spec", "says"), [
    ("8x8:fp32:share=0.5", "not for"), ("8x8:bool:share=2", "between 0 and 1"), ("8x8:bool:perm", "not for"),
    ("8:int32:lengths=4", "at least"), ("8:int32:lengths", "cannot read"), ("8x8:int32<9:unit", "not for"),
    ("8:transposed", "two dimensions"), ("8x8:shuffled", "unknown dtype"), ("8x8:fp32:shuffled", "cannot read"),
    ("8x8192:bf16:perm", "distinct"), ("8x8:fp32:perm:sorted", "cannot read"), ("scalar:fp32:perm", "not for"),
])
def test_a_draw_that_cannot_be_is_refused_with_the_reason(spec, says):
    with pytest.raises(TargetError, match=says):
        Input.parse("x", spec, torch.float32)


@pytest.mark.parametrize("spec", ["64:int64:perm", "64:unit", "64:positive"])
def test_a_near_copy_keeps_the_kind_of_a_draw(spec):
    (x,) = drawn(spec)
    near = nearly_copy(x, torch.Generator().manual_seed(1), Input.parse("x", spec, torch.float32).draw)

    assert torch.equal(near.sort().values, x.sort().values)
    assert int((near != x).sum()) in (0, 2)


def test_a_one_byte_float_is_a_number_and_varies():
    for dtype in ("fp8_e4m3", "fp8_e5m2"):
        (x,) = drawn(f"64x64:{dtype}")
        assert bool(torch.isfinite(x.float()).all())
        assert len(set(x.float().flatten().tolist())) > 50


# Files ----------------------------------------------------------------------------------------------------------------


def test_a_tensor_is_read_from_every_kind_of_file(tmp_path: Path):
    numpy = pytest.importorskip("numpy")
    x = torch.arange(12, dtype=torch.float32).view(3, 4)
    numpy.save(tmp_path / "x.npy", x.numpy())
    numpy.save(tmp_path / "f.npy", numpy.asfortranarray(x.numpy()))
    torch.save({"a": x, "b": x + 1}, tmp_path / "x.pt")
    header = json.dumps({"w": {"dtype": "F32", "shape": [3, 4], "data_offsets": [0, 48]}, "__metadata__": {}}).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + x.numpy().tobytes())

    assert torch.equal(load_tensor(tmp_path / "x.npy"), x)
    assert torch.equal(load_tensor(tmp_path / "f.npy"), x)
    assert torch.equal(load_tensor(tmp_path / "x.pt", "b"), x + 1)
    assert torch.equal(load_tensor(tmp_path / "x.safetensors"), x)


def test_a_file_that_holds_no_such_tensor_is_refused_by_what_it_has(tmp_path: Path):
    torch.save({"a": torch.ones(2), "b": torch.ones(2)}, tmp_path / "x.pt")
    (tmp_path / "x.npy").write_bytes(b"nothing")
    for name, key, says in (("x.pt", "c", "it has a, b"), ("x.pt", "", "it has a, b"), ("x.npy", "", "no .npy"),
                            ("gone.pt", "", "cannot be read"), ("x.txt", "", r"ends in .pt")):
        with pytest.raises(TargetError, match=says):
            load_tensor(tmp_path / name, key)


class Evil:
    def __reduce__(self):
        return (print, ("ran",))


def test_a_pickle_with_code_in_it_is_not_run(tmp_path: Path, capsys):
    torch.save({"a": Evil()}, tmp_path / "x.pt")

    with pytest.raises(TargetError, match="cannot be read"):
        load_tensor(tmp_path / "x.pt")
    assert capsys.readouterr().out == ""


# Calls ----------------------------------------------------------------------------------------------------------------


def test_inputs_go_by_place_up_to_a_constants_parameter_and_by_name_from_there():
    made = target(torch.nn.functional.layer_norm, {"x": "4x8", "weight": "8", "bias": "8"}, constants={"normalized_shape": (8,)})

    assert (made.call.positional, made.call.keywords) == (("x",), ("weight", "bias"))
    assert Call.from_plain(json.loads(json.dumps(made.call.to_plain()))) == made.call


@pytest.mark.parametrize("value", [1e-6, True, None, "tanh", (1, (2, "x")), [1, 2], torch.float32, float("inf")])
def test_a_constant_is_the_same_after_the_wire(value):
    call = target(lambda x, c: x * 2, constants={"c": value}).call

    assert Call.from_plain(json.loads(json.dumps(call.to_plain()))).constants == {"c": value}


@pytest.mark.parametrize(("changes", "says"), [
    ({"constants": {"c": torch.ones(1)}}, "a constant is"), ({"constants": {"x": 1}}, "which is an input"),
    ({"writes": "y"}, "writes names y"), ({"static": "x"}, "static and rotate"), ({"static": "weights"}, "static names weights"),
    ({"backward": True, "writes": "x"}, "do not go together"), ({"cases": {"a": {"seed": 3}}}, "cannot change seed"),
    ({"cases": {"a": {"inputs": {"x": "0"}}}}, "at least 1"),
])
def test_what_does_not_go_together_is_refused(changes, says):
    with pytest.raises(TargetError, match=says):
        target(**changes)


def test_outputs_have_names_that_say_where_they_are_and_none_is_nothing():
    call = target().call
    nest = {"b": torch.ones(1), "a": (torch.ones(2), None, [torch.ones(3)])}

    assert {name: y.numel() for name, y in call.outputs(nest, {}).items()} == {
        "output.a[0]": 2, "output.a[2][0]": 3, "output.b": 1}
    for wrong, says in ((None, "no tensor"), ((torch.ones(1), 3.0), r"output\[1\] is float"), (3, "what it returns is int")):
        with pytest.raises(NotTensors, match=says):
            call.outputs(wrong, {})


def test_gradients_are_those_of_autograd_by_the_gradients_that_come_in():
    made = target(lambda x, w: torch.sin(x) * w, {"x": "4x8", "w": "8"}, backward=True).settle("cpu")
    inputs = made.call_inputs(draw(made, torch.Generator(), "cpu", tuple(made.raws)))
    outputs = made.run(inputs)
    x, w, g = inputs["x"], inputs["w"], inputs["grad_of.output"]

    assert list(outputs) == ["output", "grad x", "grad w"]
    torch.testing.assert_close(outputs["grad x"], torch.cos(x) * w * g)
    torch.testing.assert_close(outputs["grad w"], (torch.sin(x) * g).sum(0))
    assert made.rotate == ("x", "grad_of.output")


@pytest.mark.parametrize(("function", "backward", "says"), [
    (lambda x, w: x * 2, True, "no gradient reaches w"), (lambda x, w: (x > 0), True, "has a gradient"),
    (lambda x, w: x * w, ("y",), "names no input"),
])
def test_gradients_that_cannot_be_are_refused(function, backward, says):
    with pytest.raises(TargetError, match=says):
        target(function, {"x": "4x8", "w": "8"}, backward=backward).settle("cpu")


def test_a_modules_weights_vary_and_what_it_computed_itself_is_kept():
    class Module(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.tied = torch.nn.LayerNorm(8), torch.nn.Linear(8, 8, bias=False)
            self.again = self.tied
            self.register_buffer("table", torch.arange(8.0).cos())

        def forward(self, x):
            return self.again(self.norm(x)) * self.table

    made = target(Module, {"x": "4x8"})
    first, second = (made.call_inputs(draw(made, torch.Generator().manual_seed(n), "cpu", tuple(made.raws))) for n in (1, 2))

    assert sorted(name for name in made.tensors if name != "x") == [
        "weights.norm.bias", "weights.norm.weight", "weights.table", "weights.tied.weight"]
    assert torch.equal(first["weights.table"], second["weights.table"])
    for name in ("norm.weight", "norm.bias", "tied.weight"):
        assert not torch.equal(first["weights." + name], second["weights." + name])
        assert float(first["weights." + name].std()) > 0
    right = torch.nn.functional.layer_norm(first["x"], (8,), first["weights.norm.weight"], first["weights.norm.bias"])
    torch.testing.assert_close(made.run(first)["output"], right @ first["weights.tied.weight"].t() * first["weights.table"])


def test_static_weights_are_drawn_once_and_all_else_anew():
    made = target(torch.nn.Linear(32, 8), static="weights")
    pool = Pool(made, "cpu", [torch.float32])
    pool.draw(2)
    before = pool.inputs(0)
    pool.draw(2)

    assert all(torch.equal(pool.inputs(0)[name], before[name]) for name in made.static_tensors)
    assert len(made.static_tensors) == 2
    assert not torch.equal(pool.inputs(0)["x"], before["x"])


# Outputs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("function", "changes", "says"), [
    (lambda x: x.add_(1), {}, "declare it with writes"), (lambda x: x.t(), {}, "memory of its input x"),
    (lambda x: x * 2, {"writes": "x"}, "does not change x"), (lambda x: torch.fft.fft(x), {}, "complex64"),
    (lambda x: x.to_sparse(), {}, "cannot be judged"),
])
def test_a_function_that_no_verify_could_judge_is_refused(function, changes, says):
    with pytest.raises(TargetError, match=says):
        observe(target(function, **changes), "cpu")


def test_outputs_that_interleave_share_no_byte_and_those_that_meet_do():
    whole = torch.empty(4, 6)
    left, right = (Kind("y", (4, 3), "float32", part.stride(), False) for part in whole.chunk(2, -1))

    assert not share_bytes(left, right, 3 * 4)
    assert share_bytes(left, right, 2 * 4)
    assert share_bytes(left, left, 0)
    assert not share_bytes(left, right, 4 * 6 * 4)


def test_an_output_may_lie_in_its_own_calls_slot_of_a_written_input_alone():
    seen = observe(target(lambda x: x.add_(1)[:4], writes="x"), "cpu")
    kind = seen.returned[0]

    def fault(offset: int, call: int = 0) -> str | None:
        where = [OutputAt(call, 0, kind.dtype, kind.shape, kind.strides, ARENA, offset, 0)]
        found = batch_fault(seen, where, 1, lambda name, call: (2048, 2048), copied=False)
        return found[0] if found else None

    assert fault(2048) is None
    assert fault(2048 + 2048 - kind.extent_bytes) is None
    assert fault(0) == fault(4096) == fault(2048 + 2048 - kind.extent_bytes + 4) == "output_aliases_input"
    assert fault(2048, call=1) == "out_of_protocol"


def test_a_copy_of_what_was_written_may_lie_in_no_input():
    seen = observe(target(lambda x: x.add_(1)[:4].clone(), writes="x"), "cpu")

    assert seen.returned[0].may_lie_in == ()


def test_a_gradient_that_autograd_hands_on_may_be_the_one_that_came_in():
    seen = observe(target(lambda x, y: x + y, {"x": "4x8", "y": "4x8"}, rotate=("x", "y"), backward=True).settle("cpu"), "cpu")

    assert [kind.may_lie_in for kind in seen.kinds] == [(), ("grad_of.output",), ("grad_of.output",)]
    assert seen.may_overlap == {(1, 2)}


# Tolerances and rounds ------------------------------------------------------------------------------------------------


def test_a_long_sum_may_be_off_by_what_an_honest_order_costs():
    long, longer, longest, plain = (Tolerance.of(target(reduction=n), torch.float32) for n in (1 << 16, 1 << 17, 1 << 24, None))

    assert long.floor_ulps == pytest.approx(0.4 * 256)
    assert longest == longer
    assert plain.floor_ulps == 8
    assert Tolerance.of(target(reduction=1 << 20), torch.bfloat16) == Tolerance.of(target(), torch.bfloat16)


@pytest.mark.parametrize("tolerance", [{"atol": 1e9}, {"rtol": 1.5}])
def test_of_several_outputs_the_one_that_could_not_be_judged_is_named(tolerance):
    with pytest.raises(TargetError, match=r"the check of output\[0\] would pass"):
        refuse_weak(target(lambda x: (x / 3, x > 0), max_error_ratio=1e9, **tolerance), "cpu")


def rounds_of(made: Target) -> tuple[list[str], dict[str, str]]:
    seen = observe(made, "cpu")
    return rounds_for(made, "cpu", seen, seen.tolerances(made))


def test_rounds_are_of_every_kind_that_the_baseline_takes_and_of_legal_inputs():
    assert rounds_of(target()) == (list(KINDS), {})
    assert kinds_for(target(mixture="normal")) == ["repeated rows"]
    assert kinds_for(target(lambda x: x + 1, {"x": "8:int64<5"})) == []
    made = target(lambda x: x / x.abs().amax().clamp(max=1e6), reference=lambda x: x / x.abs().amax())
    able, limited = rounds_of(made)
    assert "extreme" not in able
    assert "out of tolerance" in limited["extreme"]


def test_a_round_is_what_its_name_says():
    pool = Pool(target(), "cpu", [torch.float32])
    for kind, holds in (("zeros", lambda x: not x.any()), ("repeated rows", lambda x: torch.equal(x, x[:1].expand_as(x))),
                        ("extreme", lambda x: x.abs().max() == 2.0**58)):
        pool.draw(3, kind)
        assert all(holds(pool.inputs(at)["x"]) for at in range(3))
