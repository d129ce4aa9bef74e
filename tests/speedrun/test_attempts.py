"""Every attempt of the speedrun: right on small inputs under Triton's interpreter, and within the card's limits when compiled."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
TARGETS = sorted(each.parent.name for each in ROOT.glob("speedrun/*/attempts"))
NOT_INTERPRETED = {("gelu", "04_hardware_tanh"): "the interpreter runs no inline assembly"}
SHARED_BYTES = 232_448  # that a block may have on compute capability 9.0: CUDA C++ programming guide, technical specifications
OLD_NUMPY = "only 0-dimensional arrays"  # what numpy 2.4 says of a loop's bound in Triton 3.6's interpreter

pytestmark = [pytest.mark.slow,
              pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")]


def asked(what: str, target: str, cache: Path) -> list[dict[str, Any]]:
    environment = {**os.environ, "TRITON_CACHE_DIR": str(cache), "CUDA_VISIBLE_DEVICES": "",
                   "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-W", "ignore", str(HERE / "attempts.py"), what, target], env=environment,
                          capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("target", TARGETS)
def test_an_attempt_is_right_and_the_deliberately_wrong_one_is_not(target: str, tmp_path: Path) -> None:
    found = asked("interpret", target, tmp_path)
    if any(OLD_NUMPY in each["why"] for each in found):
        pytest.skip("Triton's interpreter needs an older numpy than this one")

    assert len(found) >= 4
    for each in found:
        if (target, each["attempt"]) not in NOT_INTERPRETED:
            assert each["ok"] is not each["attempt"].startswith("99"), each


@functools.cache
def compiled(target: str) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as cache:
        return asked("compile", target, Path(cache))


@pytest.mark.parametrize("target", TARGETS)
def test_an_attempt_compiles_for_the_card_and_spills_nothing(target: str) -> None:
    for each in compiled(target):
        assert each["ok"], each
        assert each["kernels"], each
        for kernel in each["kernels"]:
            assert kernel["shared"] <= SHARED_BYTES, each
            assert (kernel["stack"], kernel["local"]) == (0, 0), each


@pytest.mark.parametrize("target", TARGETS)
def test_an_attempt_that_is_launched_early_touches_no_memory_before_the_call_before_it_is_over(target: str) -> None:
    """What a compiler moves above the wait would be read while the kernel before still writes."""
    for each in compiled(target):
        launched_early = "launch_pdl" in (ROOT / "speedrun" / target / "attempts" / f"{each['attempt']}.py").read_text("utf-8")
        assert [kernel["waits"] for kernel in each["kernels"]] == [True if launched_early else None] * len(each["kernels"]), each


@pytest.mark.parametrize("target", ["matmul_2048", "matmul_8192", "attention"])
def test_the_compiler_splits_the_warps_of_an_attempt_that_says_so(target: str) -> None:
    """Where it cannot, it leaves the loop as it is and says nothing: the attempt would be the one before."""
    kernels = {each["attempt"]: each["kernels"] for each in compiled(target)}

    assert kernels["06_warp_specialised"][0]["warps"] == 12  # four as asked, twice, and four that fetch
