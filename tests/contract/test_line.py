"""The bench line of a small target on the CPU, run by plain python as a user would, with the exit status that goes with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hotkernel_contract.line import check_once, rotated_inputs
from hotkernel_contract.target import Target

SOURCES = Path(__file__).parents[2] / "src"
KEYS = {
    "ms", "ok", "shape", "dtype", "iters", "seed", "protocol", "timing", "target", "shapes", "rotate", "rtol", "atol",
    "reference", "rotation_k", "rotation_bytes", "l2_bytes", "min_bytes", "flops", "achieved_gbs_lower_bound", "device",
    "gpu", "torch", "impl",
}
BASELINE = """
import torch
from hotkernel_contract import Target

def shifted(x, w):
    return torch.relu(x) * w

TARGET = Target(name="shifted", function=shifted, inputs={"x": "512x256", "w": "256"}, dtype="fp32", device="cpu",
                iters=6, seed=3, flops=262144, rtol=1e-4, atol=1e-5)

if __name__ == "__main__":
    TARGET.main()
"""
CANDIDATE = """
import torch
from shifted_baseline import TARGET

def shifted_candidate(x, w):
    return torch.relu(x) * (w + 0.01)

if __name__ == "__main__":
    TARGET.main(shifted_candidate, impl="candidate")
"""


def run(folder: Path, name: str) -> tuple[int, dict[str, Any]]:
    """The exit status and the one line of a file that plain python runs."""
    done = subprocess.run([sys.executable, name], cwd=folder, env={**os.environ, "PYTHONPATH": str(SOURCES)},
                          capture_output=True, text=True, timeout=120, check=False)
    lines = done.stdout.splitlines()
    assert len(lines) == 1, done.stdout + done.stderr
    return done.returncode, json.loads(lines[0])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("line")
    (folder / "shifted_baseline.py").write_text(BASELINE, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def baseline(folder: Path) -> tuple[int, dict[str, Any]]:
    return run(folder, "shifted_baseline.py")


def test_a_right_function_prints_every_key_and_exits_0(baseline):
    status, line = baseline

    assert status == 0
    assert set(line) == KEYS
    assert line["ok"] is True


def test_the_line_says_what_the_target_is(baseline):
    _, line = baseline

    assert line["shape"] == [512, 256]
    assert line["shapes"] == {"x": [512, 256], "w": [256]}
    assert line["dtype"] == "torch.float32"
    assert (line["iters"], line["seed"], line["protocol"]) == (6, 3, 4)
    assert (line["rtol"], line["atol"], line["rotate"]) == (1e-4, 1e-5, ["x"])
    assert (line["target"], line["impl"], line["device"], line["gpu"]) == ("shifted", "baseline", "cpu", None)
    assert line["torch"] == torch.__version__
    assert "self-timed" in line["timing"]
    assert "float64" in line["reference"]


def test_the_rotation_outgrows_the_cache_and_the_bytes_are_the_calls_own(baseline):
    _, line = baseline
    call_bytes = 2 * 512 * 256 * 4  # x in, the output out

    assert line["min_bytes"] == call_bytes
    assert line["flops"] == 262144
    assert line["rotation_k"] >= 2
    assert line["rotation_bytes"] == line["rotation_k"] * call_bytes
    assert line["rotation_bytes"] > 2 * line["l2_bytes"]


def test_the_bandwidth_is_bytes_over_time(baseline):
    _, line = baseline

    assert line["ms"] > 0
    assert line["achieved_gbs_lower_bound"] == pytest.approx(line["min_bytes"] / line["ms"] / 1e6)


def test_a_wrong_candidate_exits_1_under_its_own_name_and_says_why(folder):
    (folder / "shifted_candidate.py").write_text(CANDIDATE, encoding="utf-8")
    status, line = run(folder, "shifted_candidate.py")

    assert status == 1
    assert set(line) == KEYS | {"why"}
    assert (line["ok"], line["impl"]) == (False, "candidate")
    assert "out of tolerance" in line["why"]


# The check of the line, without a process -----------------------------------------------------------------------------


def shifted(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x) * w


TARGET = Target(name="shifted", function=shifted, inputs={"x": "64x32", "w": "32"}, dtype="fp32", device="cpu")


def inputs_of(seed: int) -> list[torch.Tensor]:
    return list(rotated_inputs(replace(TARGET, seed=seed, inputs={"x": "4096x512", "w": "512"}), "cpu")[0][0].values())


@pytest.mark.parametrize(("function", "says"), [
    (lambda x, w: torch.relu(x) * (w + 0.01), "out of tolerance"),
    (lambda x, w: torch.relu(x)[:, :16] * w[:16], "shape"),
    (lambda x, w: (torch.relu(x) * w).half(), "float16"),
    (lambda x, w: (torch.relu(x) * w).t().contiguous().t(), "strides"),
    (lambda x, w: [torch.relu(x) * w], "it returned output[0], the baseline output"),
    (lambda x, w: None, "no tensor"),
    (lambda x, w: 1.0, "float, not a tensor"),
    (lambda x, w: x.relu_().mul_(w), "changed its inputs"),
    (lambda x, w: torch.relu(x) * w + 0 * w.zero_(), "changed its inputs"),
], ids=["values", "shape", "dtype", "strides", "kind", "none", "number", "in-place", "weight"])
def test_a_wrong_function_is_told_by_what_is_wrong(function, says):
    ok, why = check_once(TARGET, function, {"x": torch.randn(64, 32), "w": torch.randn(32)})

    assert not ok
    assert says in why


def test_a_rewrite_that_computes_the_same_is_right():
    assert check_once(TARGET, lambda x, w: x.clamp(min=0) * w, {"x": torch.randn(64, 32), "w": torch.randn(32)}) == (True, "")


def test_the_seed_decides_the_inputs():
    first, again, other = inputs_of(3), inputs_of(3), inputs_of(4)

    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])


def test_no_two_sets_of_the_rotation_are_alike():
    sets, _ = rotated_inputs(replace(TARGET, inputs={"x": "4096x1024", "w": "1024"}), "cpu")

    assert len(sets) >= 3
    assert not any(torch.equal(sets[0]["x"], other["x"]) for other in sets[1:])
    assert all(other["w"] is sets[0]["w"] for other in sets)  # a weight is shared, as it is in use
