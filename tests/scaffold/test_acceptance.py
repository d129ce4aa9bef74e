"""Claims about the trial of a target: what cannot judge, or could not be verified, is refused with a sentence that says why."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hotkernel.scaffold import rendering, vendor
from hotkernel.scaffold.blueprint import Blueprint, FunctionPlace, read_inputs

pytest.importorskip("torch")

from hotkernel_contract import TargetError
from hotkernel_contract.acceptance import try_target

MINE = '''
import torch

def scaled(x, w):
    return x * w * 3.0

def one(x):
    return x * 2.0

def chain(x):
    return 0.5 * x * (1.0 + torch.tanh(0.797 * (x + 0.0447 * x * x * x)))

def constant(x, w):
    return torch.ones_like(x)

def zeros(x, w):
    return torch.zeros_like(x)

def nan(x, w):
    return x * float("nan")

def deaf(x, w):
    return x * 3.0

def narrow(x, w):
    return (x * w * 3.0)[:, :4]

def half_a_pair(x):
    return x * 2.0, 1.0

def view(x):
    return x.t()

def in_place(x):
    return x.mul_(2.0) + 0.0

def raising(x):
    raise RuntimeError("no kernel image")

def half_only(x):
    if x.dtype is not torch.float16:
        raise TypeError("fp16 only")
    return x * 2.0

def random(x):
    return x + torch.rand_like(x)

def quantised(raw):
    return {"q": raw["x"]}

def empty(raw):
    return {}
'''


def trial(folder: Path, function: str, **given: Any) -> dict[str, Any]:
    """Try a target of one of the functions above, in a folder of its own: a file is loaded once."""
    folder = folder / str(len(list(folder.iterdir())))
    folder.mkdir()
    (folder / "mine.py").write_text(MINE, encoding="utf-8")
    places = {what: FunctionPlace("", folder / "mine.py", given.pop(what)) for what in ("reference", "derive") if what in given}
    inputs = read_inputs(given.pop("shape", "16x32"), given.pop("extra", ["w:32"]))
    plan = Blueprint("mine", FunctionPlace("", folder / "mine.py", function), inputs, given.pop("dtype", "fp32"),
                     given.pop("rotate", ()), takes=given.pop("takes", ()), settings={"device": "cpu", **given}, **places)
    file = folder / "mine_baseline.py"
    file.write_text(rendering.baseline_text(plan, folder), encoding="utf-8")
    return try_target(file)


def refusal(folder: Path, function: str, **given: Any) -> str:
    with pytest.raises(TargetError) as caught:
        trial(folder, function, **given)
    return str(caught.value)


def test_a_sound_target_is_taken_and_described(tmp_path: Path) -> None:
    said = trial(tmp_path, "scaled", rotate=("x", "w"))

    assert said["inputs"] == {"x": "16x32:fp32", "w": "32:fp32"}
    assert (said["output"], said["device"], said["rotate"]) == ("16x32:fp32", "cpu", ["x", "w"])
    assert {Path(path).name for path in said["loaded"]} == {"mine.py", "mine_baseline.py"}


@pytest.mark.parametrize(("reference", "said"), [
    ("constant", "one constant (1.0)"),
    ("zeros", "one constant (0.0)"),
    ("nan", "no finite number"),
    ("deaf", "does not depend on input w"),
    ("narrow", "the reference returns shape [16, 4]"),
    ("one", "the reference takes (x) and would be called with x, w"),
])
def test_a_reference_that_cannot_judge_is_refused(tmp_path: Path, reference: str, said: str) -> None:
    assert said in refusal(tmp_path, "scaled", reference=reference)


@pytest.mark.parametrize(("function", "said"), [
    ("constant", "one constant (1.0)"),
    ("nan", "no finite number"),
    ("deaf", "does not depend on input w"),
    ("one", "takes (x) and would be called with x, w"),
])
def test_a_function_that_is_its_own_reference_must_be_able_to_judge(tmp_path: Path, function: str, said: str) -> None:
    assert said in refusal(tmp_path, function)


@pytest.mark.parametrize(("function", "said"), [
    ("half_a_pair", "output[1] is float, not a tensor"),
    ("view", "memory of its input x"),
    ("in_place", "changes its input x in place"),
    ("raising", "called with x [16, 32], failed: RuntimeError: no kernel image (mine.py:"),
    ("scaled", "takes (x, w) and would be called with x"),
    ("random", "give other tolerances"),
    ("absent", "has no 'absent'; it has scaled, one"),
])
def test_a_function_that_no_verify_could_judge_is_refused(tmp_path: Path, function: str, said: str) -> None:
    assert said in refusal(tmp_path, function, extra=[])


def test_a_function_that_runs_in_its_own_dtype_alone_needs_a_reference(tmp_path: Path) -> None:
    assert "as its own reference (`reference` names another), failed: TypeError: fp16 only" in refusal(
        tmp_path, "half_only", extra=[], dtype="fp16")
    assert trial(tmp_path, "half_only", extra=[], dtype="fp16", reference="one")["output"] == "16x32:fp16"


@pytest.mark.parametrize(("given", "said"), [
    ({"shape": "16x"}, "cannot read '16x'"),
    ({"shape": "0x32"}, "must be at least 1"),
    ({"shape": "16x31"}, "must match"),
    ({"shape": "16x32:int64"}, "integers need a range"),
    ({"shape": "999999x9999999"}, "GB are free"),
    ({"dtype": "bf17"}, "unknown dtype 'bf17'"),
    ({"rotate": ("y",)}, "rotate names y"),
    ({"iters": 0}, "iters=0"),
    ({"mixture": "mild"}, "mixture is 'full' or 'normal'"),
])
def test_what_makes_no_sense_is_refused(tmp_path: Path, given: dict[str, Any], said: str) -> None:
    assert said in refusal(tmp_path, "scaled", **given)


def test_tolerances_that_zeros_would_pass_are_refused(tmp_path: Path) -> None:
    assert "would pass zeros as the answer" in refusal(tmp_path, "scaled", dtype="bf16", atol=1e4, max_error_ratio=1000.0)


def test_derive_must_return_what_the_call_takes(tmp_path: Path) -> None:
    assert "derive does not return q" in refusal(tmp_path, "one", extra=[], derive="empty", takes=("q",), reference="one")
    assert trial(tmp_path, "one", extra=[], derive="quantised", takes=("q",), reference="one")["inputs"] == {"q": "16x32:fp32"}


def test_the_tolerance_that_is_proposed_to_an_unsteady_baseline_lets_it_pass(tmp_path: Path) -> None:
    message = refusal(tmp_path, "chain", shape="512x64", extra=[], dtype="bf16")

    assert "the baseline fails its own check" in message
    assert trial(tmp_path, "chain", shape="512x64", extra=[], dtype="bf16", atol=float(message.split("atol=")[1].split(",")[0]))


def test_as_a_program_it_answers_in_a_file_whatever_the_users_module_prints(tmp_path: Path) -> None:
    (tmp_path / "loud_baseline.py").write_text("print('{\"device\": 1}')\nraise SystemExit(5)\n", encoding="utf-8")
    script = vendor.package_folder() / "acceptance.py"

    done = subprocess.run([sys.executable, script, tmp_path / "loud_baseline.py", tmp_path / "answer.json"],
                          capture_output=True, timeout=60, check=False, cwd=tmp_path)

    assert done.returncode == 0
    assert "loading the target failed" in json.loads((tmp_path / "answer.json").read_text(encoding="utf-8"))["refused"]
