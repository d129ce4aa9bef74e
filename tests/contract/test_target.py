"""What a target refuses, and how its inputs are read."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
import torch

from hotkernel_contract.loading import load_file, load_function, parameters_of
from hotkernel_contract.spec import Input, TargetError, dtype_named
from hotkernel_contract.target import Target, find_target, wide_for


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * w


def target(**changes: object) -> Target:
    return Target(**{"name": "twice", "function": twice, "inputs": {"x": "8x4"}, "dtype": "fp32", **changes})  # type: ignore[arg-type]


# Inputs as they are written -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("spec", "shape", "dtype", "high"), [
    ("4096x8192", (4096, 8192), torch.bfloat16, None),
    ("8192", (8192,), torch.bfloat16, None),
    ("2,3,4", (2, 3, 4), torch.bfloat16, None),
    ("2*3", (2, 3), torch.bfloat16, None),
    (" 4 x 8 : fp32 ", (4, 8), torch.float32, None),
    ("4096:int64<32000", (4096,), torch.int64, 32000),
    ("16x16:bool", (16, 16), torch.bool, None),
    ("7:float16", (7,), torch.float16, None),
    ("7:UINT8<256", (7,), torch.uint8, 256),
])
def test_an_input_is_read_as_it_is_written(spec, shape, dtype, high):
    assert Input.parse("x", spec, torch.bfloat16) == Input("x", shape, dtype, high)


@pytest.mark.parametrize(("name", "spec", "says"), [
    ("x", "", "cannot read"),
    ("x", "4096x", "cannot read"),
    ("x", "-4x8", "cannot read"),
    ("x", "4.5", "cannot read"),
    ("x", "4:fp32:fp16", "cannot read"),
    ("x", "8x0", "at least 1"),
    ("x", "4:nonsense", "unknown dtype"),
    ("x", "4:fp32<10", "for integers"),
    ("x", "4:int64<0", "above 0"),
    ("x", "4:int64", "need a range"),
    ("x", "4:int8<129", "int8"),
    ("x", "4:uint8<257", "uint8"),
    ("1x", "4", "no name"),
    ("a-b", "4", "no name"),
    ("", "4", "no name"),
])
def test_an_input_that_cannot_be_is_refused_with_the_reason(name, spec, says):
    with pytest.raises(TargetError, match=says):
        Input.parse(name, spec, torch.float32)


def test_an_integer_default_without_a_range_names_a_form_that_can_be_written():
    with pytest.raises(TargetError, match="int64<100") as refusal:
        Input.parse("x", "4", torch.int64)

    assert "None" not in str(refusal.value)


def test_an_inputs_bytes_are_those_of_its_elements():
    assert Input.parse("x", "3x5:fp16", torch.float32).bytes == 30
    assert Input.parse("x", "3x5:int64<9", torch.float32).bytes == 120


def test_every_name_of_a_dtype_means_what_torch_calls_so():
    assert dtype_named("torch.bfloat16") is dtype_named("BF16") is torch.bfloat16
    assert dtype_named("double") is torch.float64


# What a target refuses ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("changes", "says"), [
    ({"name": "two words"}, "target name"),
    ({"name": ""}, "target name"),
    ({"name": "../up"}, "target name"),
    ({"dtype": "fp17"}, "unknown dtype"),
    ({"inputs": {}}, "at least one input"),
    ({"function": "twice"}, "no function"),
    ({"derive": dict}, "derive needs"),
    ({"derive": dict, "takes": ("x",)}, "derive needs"),
    ({"derive": dict, "reference": twice}, "derive needs"),
    ({"rotate": ("w",)}, "rotate names w"),
    ({"mixture": "easy"}, "mixture"),
    ({"device": "tpu"}, "device"),
    ({"rtol": -1.0}, "rtol"),
    ({"rtol": math.inf}, "rtol"),
    ({"atol": math.nan}, "atol"),
    ({"max_error_ratio": -0.1}, "max_error_ratio"),
    ({"flops": -5}, "flops"),
    ({"min_bytes": -5}, "min_bytes"),
    ({"iters": 0}, "iters"),
])
def test_a_target_that_makes_no_sense_is_refused(changes, says):
    with pytest.raises(TargetError, match=says):
        target(**changes)


def test_the_first_input_streams_when_nothing_else_is_said():
    assert target(function=scaled, inputs={"x": "8x4", "w": "4"}).rotate == ("x",)


def test_inputs_that_do_not_stream_are_shared_and_raw_tensors_of_derive_are_drawn_anew():
    plain = target(function=scaled, inputs={"x": "8x4", "w": "4"})
    derived = target(inputs={"seed_rows": "8x4", "w": "4"}, derive=lambda raw: {"q": raw["seed_rows"], "w": raw["w"]},
                     takes=("q", "w"), reference=scaled)

    assert plain.fresh_raws == ("x",)
    assert derived.arguments == ("q", "w")
    assert derived.rotate == ("q",)
    assert derived.fresh_raws == ("seed_rows",)


def test_derive_that_does_not_deliver_is_refused_by_the_missing_name():
    target_ = target(inputs={"raw": "8x4"}, derive=lambda raw: {"q": raw["raw"]}, takes=("q", "scales"), reference=scaled)

    with pytest.raises(TargetError, match="scales"):
        target_.call_inputs({"raw": torch.zeros(8, 4)})


def test_the_reference_computes_in_the_wide_dtype_and_leaves_integers_alone():
    seen = []

    def gather(x: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
        seen.append((x.dtype, at.dtype))
        return x[at]

    made = target(function=gather, inputs={"x": "8x4:bf16", "at": "3:int64<8"})
    answer = made.expected({"x": torch.ones(8, 4, dtype=torch.bfloat16), "at": torch.tensor([0, 1, 2])}, torch.float32)

    assert seen == [(torch.float32, torch.int64)]
    assert answer["output"].dtype is torch.float32


def test_the_reference_of_derived_inputs_gets_them_as_they_are():
    seen = []

    def reference(q: torch.Tensor) -> torch.Tensor:
        seen.append(q.dtype)
        return q

    made = target(inputs={"raw": "8x4:bf16"}, derive=lambda raw: {"q": raw["raw"]}, takes=("q",), reference=reference)
    made.expected({"q": torch.ones(8, 4, dtype=torch.bfloat16)}, torch.float32)

    assert seen == [torch.bfloat16]


def test_a_reference_that_returns_no_tensor_is_refused():
    with pytest.raises(TargetError, match="float, not a tensor"):
        target(reference=lambda x: 2.0).expected({"x": torch.ones(2)}, torch.float64)


def test_the_reference_of_single_precision_is_double_and_of_half_single():
    assert wide_for(torch.float32) is wide_for(torch.float64) is torch.float64
    assert wide_for(torch.bfloat16) is wide_for(torch.float16) is torch.float32


def test_the_device_is_the_targets_choice_else_the_cards():
    assert target(device="cpu").pick_device() == "cpu"
    assert target().pick_device() == ("cuda" if torch.cuda.is_available() else "cpu")


# Functions and files by name ------------------------------------------------------------------------------------------


def test_a_function_is_found_by_module_and_by_file(tmp_path: Path):
    (tmp_path / "own_kernels.py").write_text("class Model:\n    def run(x): return x\n", encoding="utf-8")

    assert load_function("torch.nn.functional:gelu") is torch.nn.functional.gelu
    assert load_function("./own_kernels.py:Model.run", str(tmp_path / "target_baseline.py")).__name__ == "run"


@pytest.mark.parametrize(("spec", "says"), [
    ("gelu", "must be module:function"),
    ("torch:", "must be module:function"),
    (":gelu", "must be module:function"),
    ("no_such_module_anywhere:f", "cannot import"),
    ("torch.nn.functional:no_such", "has no 'no_such'"),
    ("torch:pi", "no function"),
    ("./no_such_file.py:f", "no such file"),
])
def test_a_function_that_is_not_there_is_refused_with_what_is(spec, says, tmp_path: Path):
    with pytest.raises(TargetError, match=says):
        load_function(spec, str(tmp_path / "target_baseline.py"))


def test_a_file_is_loaded_once_and_never_as_main(tmp_path: Path):
    file = tmp_path / "kernels.py"
    file.write_text("NAME = __name__\nassert NAME != '__main__'\n", encoding="utf-8")

    first = load_file(file)

    assert load_file(file) is first
    assert first.__name__ == first.NAME


def test_two_files_of_one_name_stay_apart(tmp_path: Path):
    for folder, value in (("a", 1), ("b", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "same_name.py").write_text(f"VALUE = {value}\n", encoding="utf-8")

    assert [load_file(tmp_path / folder / "same_name.py").VALUE for folder in ("a", "b")] == [1, 2]


def test_a_file_whose_import_fails_leaves_no_half_module_behind(tmp_path: Path):
    file = tmp_path / "breaks.py"
    file.write_text("before = 1\nraise KeyError('halfway')\n", encoding="utf-8")
    before = set(sys.modules)

    with pytest.raises(KeyError):
        load_file(file)

    assert not {name for name in set(sys.modules) - before if "breaks" in name}


def test_a_file_without_a_target_is_refused_by_its_name(tmp_path: Path):
    file = tmp_path / "empty_baseline.py"
    file.write_text("import torch\n", encoding="utf-8")

    with pytest.raises(TargetError, match=r"empty_baseline\.py defines no hotkernel Target"):
        find_target(load_file(file))


def test_a_function_that_does_not_say_its_parameters_has_none_that_are_known():
    assert parameters_of(scaled) == ["x", "w"]
    assert parameters_of(torch.nn.functional.gelu) is None


def test_a_module_without_weights_is_given_an_empty_dict_of_them() -> None:
    target = Target(name="gelu", function=torch.nn.GELU(), inputs={"x": "4x8"}, dtype="fp32", device="cpu")
    x = torch.randn(4, 8)

    assert torch.equal(target.run({"x": x})["output"], torch.nn.functional.gelu(x))
    assert torch.equal(target.run({"x": x}, lambda x, weights: x + len(weights))["output"], x)
