"""Claims about `more`: what of a contract it can say, how it stands in the files, and what it refuses."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from hotkernel.errors import ToolError
from hotkernel.scaffold.blueprint import Blueprint, FunctionPlace, Seen, read_inputs, read_more
from hotkernel.scaffold.rendering import baseline_text, candidate_text

F = FunctionPlace("torch.nn.functional", None, "layer_norm")


def place(text: str) -> FunctionPlace:
    return FunctionPlace.read(text, Path, "baseline")


def plan(*more: str, function: FunctionPlace = F, seen: Seen | None = None, extra: tuple[str, ...] = ("weight:8",)) -> Blueprint:
    return Blueprint("norm", function, read_inputs("4x8", extra), "fp32", (), more=read_more(more, place), seen=seen)


def said(text: str) -> dict[str, str]:
    """What the Target of a baseline's text is given."""
    call = next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Call) and ast.unparse(node.func) == "Target")
    return {each.arg or "": ast.unparse(each.value) for each in call.keywords}


def test_everything_that_more_says_stands_in_the_baseline(tmp_path: Path) -> None:
    text = baseline_text(plan(
        "constant.eps=1e-6", "constant.normalized_shape=(8,)", "constant.how=tanh", "constant.to=torch.float32", "writes=x, w",
        "static=weight", "keywords=weight", "backward=true", "reduction=8", "baseline.other=torch:sin",
        "case.small=x:2x8 eps:1e-3 dtype:bf16"), tmp_path)

    found = said(text)
    assert found["constants"] == "{'eps': 1e-06, 'normalized_shape': (8,), 'how': 'tanh', 'to': torch.float32}"
    assert (found["writes"], found["static"], found["keywords"]) == ("('x', 'w')", "('weight',)", "('weight',)")
    assert (found["backward"], found["reduction"], found["baselines"]) == ("True", "8", "{'other': other_other}")
    assert found["cases"] == "{'small': {'inputs': {'x': '2x8'}, 'constants': {'eps': 0.001}, 'dtype': 'bf16'}}"
    assert "other_other = load_function(\"torch:sin\", __file__)" in text
    assert "import torch\n" in text


@pytest.mark.parametrize("item", ["eps=1", "constant=1", "constant.=1", "writes", "writes.x=1", "case.a=x", "reduction=many",
                                  "baseline.lib=nothing", "seed=3"])
def test_what_says_nothing_is_refused_with_the_forms_that_do(item: str) -> None:
    with pytest.raises(ToolError) as caught:
        read_more([item], place)

    assert "baseline.lib=module:function" in caught.value.fix or "module:function" in caught.value.fix


def test_a_candidate_takes_what_the_baseline_is_called_with() -> None:
    seen = Seen(("x",), ("weight",), ("normalized_shape",))
    text = candidate_text(plan("constant.normalized_shape=(8,)", seen=seen), is_copy=False)

    assert ("def norm_candidate(x, weight, normalized_shape):\n"
            "    return torch.nn.functional.layer_norm(x, weight=weight, normalized_shape=normalized_shape)\n") in text


def test_a_module_becomes_a_candidate_that_is_called_with_its_weights() -> None:
    linear = FunctionPlace("torch.nn", None, "Linear")
    text = candidate_text(plan("constant.in_features=8", "constant.out_features=2", function=linear, extra=(),
                               seen=Seen(("x",), (), (), "class")), is_copy=False)

    assert 'module = ModuleCall.of(load_function("torch.nn:Linear")(in_features=8, out_features=2))' in text
    assert "def norm_candidate(x, weights):\n    return module(x, weights)\n" in text


def test_an_input_from_a_file_is_named_as_it_lies_from_the_target(tmp_path: Path) -> None:
    file = tmp_path / "weights.pt"
    made = Blueprint("norm", F, {"x": "4x8", "w": f"file={file}#a"}, "fp32", ())

    assert said(baseline_text(made, tmp_path / "deeper"))["inputs"] == "{'x': '4x8', 'w': 'file=../weights.pt#a'}"
