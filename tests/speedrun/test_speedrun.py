"""The flow of benchmarks/speedrun.py on a small CPU target: what is tried, kept, recorded, confirmed and not done again."""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hotkernel.records import leaderboard, store

ROOT = Path(__file__).resolve().parents[2]
KERNELS = """
import torch


def twist(x):
    for _ in range(12):
        y = torch.sin(x) * 2.0
    return y


def twice(x):
    for _ in range(6):
        y = torch.sin(x) * 2.0
    return y
"""
BASELINE = """
from hotkernel_contract import Target, load_function

twist, twice = load_function("./mykernels.py:twist", __file__), load_function("./mykernels.py:twice", __file__)
TARGET = Target(name="{name}", function=twist, {more}inputs={{"x": "64x1024"}}, dtype="fp32", device="cpu")
"""
ONCE = '"""Once instead of twelve times;\nfaster."""\nimport torch\n\n\ndef candidate(x):\n    return torch.sin(x) * 2.0\n'
NCU = """#!/bin/sh
case "$1" in --version) echo "version 9999.1"; exit 0;; esac
while [ "$1" != --export ]; do shift; done
cp "{report}" "$2.ncu-rep"
"""  # stands for ncu: it makes a recorded report, so that what the run does with one is seen
WRONG = '"""Deliberately wrong."""\nimport torch\n\n\ndef candidate(x):\n    return torch.sin(x) * 2.1\n'

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def targets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("speedrun")
    twist = folder / "targets" / "twist"
    (twist / "attempts").mkdir(parents=True)
    (twist / "mykernels.py").write_text(KERNELS, encoding="utf-8")
    for name, more in (("twist", ""), ("twist_compiled", 'baselines={"half": twice}, reference=twist, ')):
        (twist / f"{name}_baseline.py").write_text(BASELINE.format(name=name, more=more), encoding="utf-8")
    for stem, text in (("01_once", ONCE), ("99_wrong", WRONG)):
        (twist / "attempts" / f"{stem}.py").write_text(text, encoding="utf-8")
    broken = folder / "targets" / "broken"
    (broken / "attempts").mkdir(parents=True)
    (broken / "broken_baseline.py").write_text("import hotkernel_contract\n\nraise OSError('no such library')\n",
                                               encoding="utf-8")
    (broken / "attempts" / "01_once.py").write_text(ONCE, encoding="utf-8")
    (folder / "bin").mkdir()
    ncu = folder / "bin" / "ncu"
    ncu.write_text(NCU.format(report=ROOT / "tests" / "fixtures" / "profilers" / "rms_full.ncu-rep"), encoding="utf-8")
    ncu.chmod(0o755)
    return folder / "targets"


def run(targets: Path, *more: str) -> str:
    out = targets.parent / "out"
    path = os.pathsep.join([str(targets.parent / "bin"), os.environ["PATH"]])
    environment = {**os.environ, "PATH": path, "HOTKERNEL_PYTHON": sys.executable, "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks" / "speedrun.py"), "--out", str(out), "--targets", str(targets),
                           *more], env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def rows(targets: Path, name: str = "twist") -> list[dict[str, object]]:
    journal = json.loads((targets.parent / "out" / "journal" / f"{name}.json").read_text(encoding="utf-8"))
    found: list[dict[str, object]] = journal["attempts"]
    return found


def test_every_attempt_is_on_record_in_order_with_its_hypothesis_and_the_best_is_kept(targets: Path) -> None:
    run(targets, "--parts", "first", "attempts", "record", "profile")

    logs = store.read(targets.parent / "out").records
    records = [each.record for each in logs]
    assert [each.note for each in records] == ["Once instead of twelve times; faster.", "Deliberately wrong."]
    assert [str(each.comparison.verdict) for each in records] == ["faster", "incorrect"]
    assert [row["kept"] for row in rows(targets)] == [True, False]
    if importlib.util.find_spec("ncu_report"):
        assert [each.why is not None for each in logs] == [True, False]
    assert "01_once" in (targets.parent / "out" / "SPEEDRUN.md").read_text(encoding="utf-8")


def test_a_target_that_cannot_be_judged_is_told_of_and_ends_no_other(targets: Path) -> None:
    tried = rows(targets, "broken")

    assert [(row["id"], row["verdict"]) for row in tried] == [(None, None)] * len(tried)
    assert "no such library" in str(tried[0]["reason"])


def test_a_second_run_confirms_and_compares_and_verifies_no_attempt_again(targets: Path) -> None:
    before = rows(targets)
    run(targets)

    assert rows(targets) == before
    of_the_best, of_the_wrong_one, compiled = store.read(targets.parent / "out").records
    assert (len(of_the_best.confirmations), len(of_the_wrong_one.confirmations)) == (3, 0)
    assert (compiled.record.target, compiled.record.comparison.baseline_name) == ("twist_compiled", "half")


def test_an_attempt_added_later_is_the_only_one_run(targets: Path) -> None:
    file = targets / "twist" / "attempts" / "02_again.py"
    file.write_text(ONCE.replace("Once instead", "The same once more, instead"), encoding="utf-8")
    before = rows(targets)
    run(targets, "--only", "twist/02", "--parts", "attempts", "record")

    assert [row["attempt"] for row in rows(targets)[len(before):]] == ["02_again"]
    assert rows(targets)[-1]["kept"] is False


def test_a_run_whose_time_is_over_begins_nothing(targets: Path) -> None:
    file = targets / "twist" / "attempts" / "03_late.py"
    file.write_text(ONCE.replace("Once", "Late"), encoding="utf-8")
    before = rows(targets)

    assert "stopped" in run(targets, "--limit-s", "0", "--parts", "attempts")
    assert rows(targets) == before


def test_what_was_recorded_comes_into_a_checkout_without_the_paths_of_the_machine(targets: Path, tmp_path: Path) -> None:
    out = targets.parent / "out"
    done = subprocess.run([sys.executable, str(ROOT / "benchmarks" / "speedrun_publish.py"), str(out), "--into", str(tmp_path)],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    shelf = store.read(tmp_path)
    assert len(shelf.records) == len(store.read(out).records)
    assert (tmp_path / "LEADERBOARD.md").read_text(encoding="utf-8") == leaderboard.draw(shelf)
    assert not any(str(out) in each.read_text(encoding="utf-8") for each in tmp_path.rglob("*.json"))
    sides = shelf.records[0].record.comparison.cmds
    assert [sides[side][-1] for side in ("baseline", "candidate")] == [
        "speedrun/twist/twist_baseline.py", "speedrun/twist/attempts/01_once.py"]
    assert "(../results/twist/" in (tmp_path / "speedrun" / "SPEEDRUN.md").read_text(encoding="utf-8")


def test_nothing_is_begun_that_would_end_too_late_by_what_such_took_before(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    speedrun = importlib.import_module("speedrun")
    begun = speedrun.Speedrun(argparse.Namespace(out=tmp_path, limit_s=60.0))
    assert 30.0 < begun.time_for("attempts") <= 60.0  # it may take what is left, and no more

    begun.took("attempts", 61.0)
    with pytest.raises(speedrun.Late):
        begun.time_for("attempts")
    begun.time_for("confirm")
