"""benchmarks/evidence.py without a card: its checks on answers made of recorded reports, and a run with an ncu that replays."""

from __future__ import annotations

import copy
import json
import lzma
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hotkernel.machine import reports
from hotkernel.schema.plain import to_plain
from hotkernel.session import Session
from hotkernel.tools import disassembly, kernels

pytest.importorskip("ncu_report", reason="needs NVIDIA's ncu-report")
ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
SCRIPT = ROOT / "benchmarks" / "evidence.py"
sys.path.insert(0, str(SCRIPT.parent))
import evidence_checks  # noqa: E402

KERNEL = "rmsnorm_fwd_kernel"
LIMIT = "launch__occupancy_limit_registers"
CUBIN = FIXTURES / "sass" / "triton-cache" / "6T2ZMOSIGWZELR7BL4EN37HY7VI7MEFIQUDKU6HMLTPWGDWJXOTQ" / f"{KERNEL}.cubin"


def rows_of(report: Any, kernel: str) -> list[dict[str, Any]]:
    return [row for row in to_plain(report)["kernels"] if row["short_name"] == kernel]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the tools say of one kernel that was traced, profiled and disassembled on an H200; verify's time is docs/timing's."""
    folder = tmp_path_factory.mktemp("recorded")
    report = folder / "rms_full.ncu-rep"
    report.write_bytes(lzma.decompress((FIXTURES / "sass" / "rms_full.ncu-rep.xz").read_bytes()))
    session = Session(root=folder)
    trace = kernels.top_kernels(session, str(FIXTURES / "profilers" / "torch_trace.json.gz"))
    (action,) = reports.ncu_actions(session.job, report, [LIMIT])
    return {
        "trace": {"kernels": rows_of(trace, KERNEL), "n_kernels": 1},
        "ncu": {"top": rows_of(kernels.top_kernels(session, str(report)), KERNEL)},
        "limits": {KERNEL: action["metrics"][LIMIT][0]},
        "disasm": to_plain(disassembly.disasm(session, str(CUBIN))),
        "explain": to_plain(disassembly.explain(session, str(report), against=str(report))),
        "verify": {"candidate": {"median_ms": 0.03603}},
    }


def failed(said: dict[str, Any]) -> list[str]:
    return [check.claim for check in evidence_checks.of_example("rmsnorm", said) if check.holds is False]


def test_programs_that_watched_one_kernel_agree_and_each_time_is_shown(recorded):
    checks = evidence_checks.of_example("rmsnorm", recorded)

    assert [check.claim for check in checks if check.holds is None] == [
        "nsys's top kernel is torch_trace's", "nsys's time of it is within 10% of torch_trace's, or 1.3 us"]
    assert failed(recorded) == []
    assert evidence_checks.times_us(recorded) == pytest.approx({"torch_trace": 34.2592, "ncu": 31.968, "verify": 36.03})


@pytest.mark.parametrize(
    ("change", "claim"),
    [
        (lambda said: said["verify"]["candidate"].update(median_ms=0.0380), "verify's time of it is within 10%"),
        (lambda said: said["ncu"]["top"][0].update(avg_us=28.0), "ncu's time of it is within 15%"),
        (lambda said: said["ncu"]["top"][0].update(registers_per_thread=63), "registers are the same"),
        (lambda said: said["ncu"]["top"][0]["metrics"].update(spill_requests=5), "spills are in the SASS exactly"),
        (lambda said: said["ncu"]["top"][0]["metrics"].update(theoretical_occupancy_pct=75.0), "ncu's occupancy limit"),
        (lambda said: said["limits"].update({KERNEL: 3.0}), "warps that the registers allow"),
        (lambda said: said["trace"]["kernels"][0].update(short_name="other"), "ncu's top kernel is torch_trace's"),
        (lambda said: said["disasm"]["kernels"][0].update(name="other"), "disasm and ncu saw the same kernel"),
        (lambda said: said["explain"].update(lines=[]), "explain names the hottest source lines"),
    ],
)
def test_each_disagreement_is_found(recorded, change, claim):
    said = copy.deepcopy(recorded)
    change(said)

    assert any(text.startswith(claim) for text in failed(said))


def test_a_call_of_several_kernels_is_not_held_against_verifys_time_of_all(recorded):
    said = copy.deepcopy(recorded)
    said["trace"]["n_kernels"] = 2

    (check,) = [each for each in evidence_checks.of_example("x", said) if each.claim.startswith("verify's time")]

    assert check.holds is None
    assert "2 kernels" in check.seen


def test_a_full_profile_stands_in_for_a_basic_one(recorded):
    said = {("ncu_full" if step == "ncu" else step): answer for step, answer in recorded.items()}

    assert failed(said) == []
    assert evidence_checks.times_us(said)["ncu"] == 31.968


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The recorded kernels that spill and multiply, under the names of the planted ones."""
    folder = tmp_path_factory.mktemp("planted")
    spilly = folder / "spilly_kernel.cubin"
    spilly.write_bytes(lzma.decompress((FIXTURES / "sass" / "spilly_kernel.cubin.xz").read_bytes()))
    session = Session(root=folder)
    report = kernels.top_kernels(session, str(FIXTURES / "profilers" / "more.details.csv"))
    renamed = {"spilly_kernel": "spilling_kernel", "matmul_kernel": "dot_kernel"}
    rows = [{**row, "short_name": new} for old, new in renamed.items() for row in rows_of(report, old)]
    return {
        "ncu": {"top": rows},
        "disasm_spilling_kernel": to_plain(disassembly.disasm(session, str(spilly))),
        "disasm_dot_kernel": to_plain(disassembly.disasm(session, str(FIXTURES / "sass" / "matmul_kernel.cubin"))),
    }


def test_a_spill_is_said_by_both_and_a_product_shows_its_instructions(planted):
    checks = {(check.subject, check.claim): check for check in evidence_checks.of_planted(planted)}

    assert {check.holds for check in checks.values()} <= {True, None}
    assert checks["spilling_kernel", "disasm finds spills"].holds
    assert checks["spilling_kernel", "ncu counts its spills"].holds
    assert "HGMMA" in checks["dot_kernel", "its tensor-core instructions are shown"].seen


def test_a_spill_that_nobody_names_and_a_product_without_its_instructions_fail(planted):
    said = copy.deepcopy(planted)
    said["disasm_spilling_kernel"]["findings"] = []
    said["disasm_dot_kernel"]["kernels"][0]["tensor_core"] = []

    found = {check.claim for check in evidence_checks.of_planted(said) if check.holds is False}

    assert {"disasm finds spills", "its tensor-core instructions are shown"} <= found


def test_an_answer_that_is_too_long_fails():
    (check,) = evidence_checks.of_answers({"a": {"characters": 10}, "b": {"characters": 30_000}})

    assert (check.holds, "b" in check.seen) == (False, True)


REPLAY = """#!/bin/sh
case "$1" in --version) echo "Version 9999.1"; exit 0;; esac
while [ $# -gt 0 ]; do case "$1" in --export) cp "{report}" "$2.ncu-rep";; esac; shift; done
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a shell script")
def test_a_run_writes_its_page_and_every_answer_without_paths_of_the_machine(tmp_path):
    report = tmp_path / "recorded.ncu-rep"
    report.write_bytes(lzma.decompress((FIXTURES / "sass" / "rms_full.ncu-rep.xz").read_bytes()))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "ncu").write_text(REPLAY.format(report=report), encoding="utf-8")
    (tmp_path / "bin" / "ncu").chmod(0o755)
    of_rmsnorm = ("ncu", "ncu_full", "limits", "baseline_full", "explain", "top_kernels", "difference")
    steps = ["gpu_info", *(f"rmsnorm.{step}" for step in of_rmsnorm)]

    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--out", str(tmp_path / "out"), "--only", *steps], capture_output=True, text=True,
        timeout=120, check=False,
        # a TMPDIR of its own, so that it waits for nobody who times on this machine: nothing is timed here
        env={**os.environ, "HOTKERNEL_PYTHON": sys.executable, "PATH": f"{tmp_path}/bin:/usr/bin:/bin", "TMPDIR": str(tmp_path)})

    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out" / "evidence.json").read_text(encoding="utf-8"))
    assert [name for name, step in found["steps"].items() if "error" in step] == []
    assert found["times_us"]["rmsnorm"] == {"ncu": 31.968}
    assert found["machine"]["ncu"] == "9999.1"
    page = (tmp_path / "out" / "evidence.md").read_text(encoding="utf-8")
    assert "| rmsnorm | explain names the hottest source lines with what their warps wait for | holds | line 7" in page
    raw = {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "out" / "raw").iterdir()}
    assert {f"{step}.json" for step in steps[1:]} | {"machine.gpu_info.json", "nvidia-smi.txt"} <= set(raw)
    assert not [name for name, text in raw.items() if str(ROOT) in text or "hotkernel-evidence-" in text]


def test_a_step_that_no_time_is_left_for_is_named(tmp_path):
    done = subprocess.run([sys.executable, str(SCRIPT), "--out", str(tmp_path), "--limit-s", "1"],
                          capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "evidence.json").read_text(encoding="utf-8"))
    assert len(found["left_out"]) > 10
    assert found["left_out"][0].startswith("machine.gpu_info")


def test_a_folder_without_the_library_is_refused(tmp_path):
    done = subprocess.run([sys.executable, str(SCRIPT), "--out", str(tmp_path), "--nsys-libs", str(tmp_path)],
                          capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert "no libdw.so.1" in done.stderr
