"""Every benchmark can be loaded, and finds in the package what it takes from it or changes in a copy of it."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LOAD = ("import importlib.util, sys; spec = importlib.util.spec_from_file_location('loaded', sys.argv[1]); "
        "module = importlib.util.module_from_spec(spec); sys.modules['loaded'] = module; spec.loader.exec_module(module)")

pytestmark = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="some of them import torch")


@pytest.mark.parametrize("file", sorted((ROOT / "benchmarks").glob("*.py")), ids=lambda file: file.stem)
def test_a_benchmark_loads(file: Path) -> None:
    paths = os.pathsep.join([str(ROOT / "src"), str(file.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", LOAD, str(file)], env={**os.environ, "PYTHONPATH": paths}, capture_output=True,
                          text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr[-1500:]


def test_what_the_judges_benchmark_changes_in_a_copy_is_there() -> None:
    spec = importlib.util.spec_from_file_location("judge_benchmark", ROOT / "benchmarks" / "judge.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    changes = [(name, before) for change in module.CHANGES.values() for name, (before, _) in change.items()]
    assert len(changes) == 2
    for name, before in changes:
        assert (ROOT / "src" / name).read_text(encoding="utf-8").count(before) == 1, name
