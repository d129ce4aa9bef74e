"""Claims about the examples: each baseline can judge, and the four candidates on the CPU are what their README says."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from hotkernel_contract.acceptance import try_target
from hotkernel_contract.loading import load_file
from hotkernel_contract.target import find_target

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL = {
    "01_rmsnorm": {"x": "64x256", "w": "256"},
    "02_softmax": {"x": "64x256"},
    "03_gemv": {"x": "64x256", "v": "256"},
    "04_layernorm_cpu": {"x": "64x256", "w": "256", "b": "256"},
}


def test_every_example_is_tried_here() -> None:
    assert sorted(SMALL) == sorted(path.name for path in EXAMPLES.iterdir() if path.is_dir())


@pytest.mark.parametrize("folder", SMALL)
def test_the_baseline_of_an_example_can_judge(folder: str, tmp_path: Path) -> None:
    (baseline,) = (EXAMPLES / folder).glob("*_baseline.py")
    target = find_target(load_file(baseline))
    small = tmp_path / baseline.name
    small.write_text("from hotkernel_contract import Target\n", encoding="utf-8")
    module = load_file(small)
    module.TARGET = replace(target, inputs=SMALL[folder], device="cpu")

    said = try_target(small)  # finds the module that is loaded

    assert list(said["inputs"]) == list(SMALL[folder])
    assert list(SMALL[folder]) == list(target.inputs)


@pytest.mark.parametrize("folder", SMALL)
def test_the_readme_of_an_example_says_how_it_is_run(folder: str) -> None:
    (baseline,) = (EXAMPLES / folder).glob("*_baseline.py")
    candidate = baseline.name.replace("_baseline", "_candidate")

    assert f"hotkernel verify {candidate} {baseline.name}\n" in (EXAMPLES / folder / "README.md").read_text(encoding="utf-8")
    assert (EXAMPLES / folder / candidate).is_file()


@pytest.mark.parametrize(("file", "status"), [("baseline", 0), ("candidate", 0), ("untouched", 0), ("wrong", 1)])
def test_the_example_for_the_cpu_runs_with_plain_python(file: str, status: int) -> None:
    lines, returncode = run(f"layernorm_{file}.py")

    assert [line["ok"] for line in lines] == [status == 0]
    assert returncode == status
    assert lines[0]["shapes"] == {"x": [256, 1024], "w": [1024], "b": [1024]}


def test_the_cheat_is_right_and_lies_about_its_time_twice() -> None:
    (forged, timed), returncode = run("layernorm_cheat.py")

    assert (returncode, timed["ok"]) == (0, True)
    assert forged["ms"] < 1e-5
    assert timed["ms"] < 0.02  # a fifth of what one pass over memory takes


def run(name: str) -> tuple[list[dict[str, Any]], int]:
    """The lines and the exit status of a file of the fourth example, with nothing of ours within reach."""
    done = subprocess.run([sys.executable, EXAMPLES / "04_layernorm_cpu" / name], capture_output=True, text=True, timeout=120,
                          check=False, cwd="/", env={"PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"})
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode
