"""Claims about the text of a baseline and a candidate: it says what was said, and a copy runs like its original."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from hotkernel.errors import ToolError
from hotkernel.scaffold.blueprint import Blueprint, FunctionPlace, read_inputs
from hotkernel.scaffold.rendering import baseline_text, candidate_text, texts

EXAMPLES = Path(__file__).parents[2] / "examples"


def written(folder: Path, source: str | bytes) -> Blueprint:
    file = folder / "mine.py"
    file.write_bytes(source if isinstance(source, bytes) else source.encode())
    return Blueprint("twice", FunctionPlace("", file, "double"), {"x": "4x4"}, "bf16", ())


def run(text: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "loaded"}
    exec(compile(text, "candidate", "exec"), names)
    return names


def test_a_library_function_is_imported_by_the_baseline_and_called_by_the_candidate(tmp_path: Path) -> None:
    plan = Blueprint("root", FunctionPlace("math", None, "sqrt"), {"x": "4"}, "bf16", ())

    assert "from math import sqrt as baseline" in baseline_text(plan, tmp_path)
    assert run(candidate_text(plan, is_copy=False))["root_candidate"](9.0) == 3.0


def test_a_name_with_dots_is_looked_up_by_the_contract(tmp_path: Path) -> None:
    plan = Blueprint("join", FunctionPlace("os", None, "path.join"), {"x": "4", "y": "4"}, "bf16", ())

    assert 'baseline = load_function("os:path.join", __file__)' in baseline_text(plan, tmp_path)
    assert run(candidate_text(plan, is_copy=False))["join_candidate"]("a", "b") == "a/b"


def test_the_candidate_is_a_copy_of_the_users_file_with_a_function_of_the_targets_name(tmp_path: Path) -> None:
    text = candidate_text(written(tmp_path, "FACTOR = 2\n\ndef double(x):\n    return FACTOR * x\n"), is_copy=True)

    assert "FACTOR = 2\n\ndef double(x):\n    return FACTOR * x\n\n\ndef twice_candidate(x):\n    return double(x)\n" in text
    assert run(text)["twice_candidate"](4) == 8


def test_what_the_users_file_does_as_a_script_stays_behind(tmp_path: Path) -> None:
    source = 'def double(x):\n    return 2 * x\n\nif "__main__" == __name__:\n    raise SystemExit("ran")\n'

    assert "ran" not in candidate_text(written(tmp_path, source), is_copy=True)


def test_a_copy_keeps_its_imports_from_the_future_its_docstring_and_its_letters(tmp_path: Path) -> None:
    source = ('#!/usr/bin/python\n# -*- coding: latin-1 -*-\n"""Größe."""\nfrom __future__ import annotations\n'
              'def double(x): return "é"\n')
    text = candidate_text(written(tmp_path, source.encode("latin-1")), is_copy=True)

    assert "latin-1" not in text
    names = run(text)
    assert (names["__doc__"], names["double"](1)) == ("Größe.", "é")


def test_a_function_that_has_the_candidates_name_already_is_not_wrapped(tmp_path: Path) -> None:
    text = candidate_text(written(tmp_path, "def twice_candidate(x):\n    return 2 * x\n"), is_copy=True)

    assert text.count("def twice_candidate") == 1


@pytest.mark.parametrize(("source", "said"), [("def double(x:\n", "no valid Python"), (b"x = '\xff\xfe'\n", "no Python file")])
def test_a_file_that_is_no_python_is_refused(tmp_path: Path, source: str | bytes, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        candidate_text(written(tmp_path, source), is_copy=True)


def test_no_text_can_leave_its_quotes(tmp_path: Path) -> None:
    plan = Blueprint("twice", FunctionPlace("math", None, "sqrt"), {"x": '4"); raise SystemExit(1); ("'}, 'bf16"\n\'', ())
    tree = ast.parse(baseline_text(plan, tmp_path))

    call = next(node for node in ast.walk(tree) if isinstance(node, ast.Call))
    said = {each.arg: each.value for each in call.keywords}
    assert ast.literal_eval(said["dtype"]) == 'bf16"\n\''
    assert ast.literal_eval(said["inputs"]) == {"x": '4"); raise SystemExit(1); ("'}


def test_everything_that_was_said_stands_in_the_baseline_and_nothing_else(tmp_path: Path) -> None:
    plan = Blueprint(
        "deq", FunctionPlace("math", None, "sqrt"), {"x": "4x4", "v": "4"}, "fp16", ("q",), FunctionPlace("math", None, "cos"),
        FunctionPlace("math", None, "sin"), ("q", "s"), {"rtol": 0.5, "flops": 12, "reuses_output": True, "device": "cpu"})
    call = next(node for node in ast.walk(ast.parse(baseline_text(plan, tmp_path))) if isinstance(node, ast.Call))

    assert {each.arg: ast.unparse(each.value) for each in call.keywords} == {
        "name": "'deq'", "function": "baseline", "inputs": "{'x': '4x4', 'v': '4'}", "dtype": "'fp16'", "rotate": "('q',)",
        "reference": "reference", "reference_name": "'math:cos'", "derive": "derive", "takes": "('q', 's')", "rtol": "0.5",
        "flops": "12", "reuses_output": "True", "device": "'cpu'"}


MADE = {
    "01_rmsnorm": ("rmsnorm", "mykernels.py:rmsnorm", "4096x8192", ["w:8192"], "bf16", {}),
    "02_softmax": ("softmax", "mykernels.py:softmax", "4096x8192", [], "bf16", {}),
    "03_gemv": ("gemv", "torch:mv", "8192x8192", ["v:8192"], "bf16", {"flops": 2 * 8192 * 8192}),
    "04_layernorm_cpu": ("layernorm", "mykernels.py:layernorm", "256x1024", ["w:1024", "b:1024"], "fp32", {"device": "cpu"}),
}


@pytest.mark.parametrize("folder", MADE)
def test_the_examples_are_what_new_target_writes(folder: str) -> None:
    target, function, shape, extra, dtype, settings = MADE[folder]
    here = EXAMPLES / folder
    plan = Blueprint(target, FunctionPlace.read(function, lambda path: here / path, "from"), read_inputs(shape, extra), dtype,
                     ("x",), settings=settings)

    new = texts(plan, here, is_copy=True)
    baseline, candidate = f"{target}_baseline.py", f"{target}_candidate.py"
    assert (here / baseline).read_text(encoding="utf-8") == new[baseline]
    assert (here / candidate).read_text(encoding="utf-8").splitlines()[:3] == new[candidate].splitlines()[:3]
    assert (here / candidate).read_text(encoding="utf-8").splitlines()[-4:] == new[candidate].splitlines()[-4:]
