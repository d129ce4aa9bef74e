"""calibrate: the script on the CPU for real, the tool under a stand-in driver with readings made by hand, and its refusals."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "machine"))
sys.path.insert(0, str(Path(__file__).parents[1] / "judge"))
import nvml_stub
import readings_by_hand as hand

from hotkernel.errors import ToolError
from hotkernel.judge import calibration as judge
from hotkernel.machine import driver
from hotkernel.schema.calibration import CalibrationPlan, Readings
from hotkernel.schema.gpu import GpuProcess, GpuState
from hotkernel.schema.plain import from_plain, to_plain
from hotkernel.session import Session
from hotkernel.tools import calibration as tool

NO_CARD = pytest.mark.skipif(bool(driver.list_gpus().gpus), reason="this machine has a card")
SCRIPT = Path(__file__).parents[2] / "src" / "hotkernel_contract" / "calibration.py"
UUID = "GPU-fcdd3975-a188-f16e-478e-b9068b3bcdc7"
CALL = """
from hotkernel.errors import ToolError
from hotkernel.session import Session
from hotkernel.tools import calibration, gpu
session = Session()
try:
    answer = {call}
except ToolError as error:
    answer = {{"error": error.message, "fix": error.fix, "detail": error.detail}}
"""


# The script ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def measured(tmp_path_factory) -> dict:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("calibration")
    plan = CalibrationPlan(l2_multiples=(1, 2), l2_fractions=(0.5,), values=3, matrix=("fp32", "fp4"), matrix_sizes=(32, 64),
                           sustained_s=0.02, noise_pairs=1, noise_values=2, warm_s=0.05, device="cpu", l2_bytes=1 << 18)
    (folder / "plan.json").write_text(json.dumps(to_plain(plan)), encoding="utf-8")
    done = subprocess.run([sys.executable, SCRIPT, folder / "plan.json", folder / "readings.json"], timeout=120, cwd=folder,
                          capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert {file.name for file in folder.iterdir()} == {"plan.json", "readings.json"}
    return json.loads((folder / "readings.json").read_text(encoding="utf-8"))


def test_the_script_reads_every_operation_at_every_size(measured):
    found = from_plain(Readings, measured)

    assert {each.operation for each in found.bandwidth} == {"read", "write", "copy", "triad"}
    assert all(len(each.us) == 3 for each in found.bandwidth)
    for each in found.bandwidth:
        assert min(abs(each.moved_bytes / (m * (1 << 18)) - 1) for m in (1, 2)) < 0.26, "whole blocks near what was asked"
    assert len(found.l2_copy) == 1
    assert found.error is None


def test_the_script_compares_fresh_processes(measured):
    found = from_plain(Readings, measured)

    assert [each.kernel for each in found.noise] == ["clone", "softmax", "mv", "mm"]
    assert all([len(side) for side in each.pairs[0]] == [2, 2] for each in found.noise)


def test_a_dtype_without_a_multiplication_says_why_and_the_rest_goes_on(measured):
    found = from_plain(Readings, measured)

    assert "fp4" in found.refused["fp4"]
    assert [(each.dtype, each.size) for each in found.matrix] == [("fp32", 32), ("fp32", 64)]
    assert any(each.sustained_us for each in found.matrix)


def test_what_a_batch_costs_beside_its_calls_drops_out_of_the_slope():
    pytest.importorskip("torch")
    from hotkernel_contract.stopwatch import MAX_CALLS, MIN_WORK_US, Meter

    class Clock:
        """40 us for a batch, and so many a call."""

        host_us = 500.0

        def __init__(self, us: float) -> None:
            self.us, self.gates = us, []

        def batch(self, call, calls, gate_us):
            self.gates.append(gate_us)
            return 40.0 + self.us * calls

    for us in (2.0, 50.0, 1_000.0, 500_000.0):
        meter = Meter(Clock(us), lambda k: k)
        assert meter.values(3) == pytest.approx([us] * 3)
        between = meter.n2 - meter.n1
        assert 1 <= meter.n1 < meter.n2 <= MAX_CALLS + MAX_CALLS // 5
        assert between * us >= 0.8 * MIN_WORK_US or meter.n2 >= MAX_CALLS, "the batch's own cost makes a call look longer"
        assert meter.clock.gates[-1] > Clock.host_us, "the gate outlasts the queueing"


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no Triton in this Python")
def test_the_triton_kernel_reads_writes_copies_and_adds():
    code = """
import torch
from hotkernel_contract import ceilings as c
out, a, b = (torch.randn(3 * c.BLOCK * c.TIMES) for _ in range(3))
partial, whole = torch.zeros(8), out.sum()
c.by_triton("read", (out,), partial)()
assert torch.allclose(partial[:3].sum(), whole, atol=1e-2)
c.by_triton("copy", (out, a), partial)()
assert torch.equal(out, a)
c.by_triton("triad", (out, a, b), partial)()
assert torch.allclose(out, a + c.FACTOR * b)
c.by_triton("write", (out,), partial)()
assert len(torch.unique(out)) == out.numel()
"""
    done = subprocess.run([sys.executable, "-c", code], timeout=120, capture_output=True, text=True, check=False,
                          env={**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": str(SCRIPT.parents[1])})
    assert done.returncode == 0, done.stderr


# The tool --------------------------------------------------------------------------------------------------------------


def stand_in(folder: Path, readings: dict) -> Path:
    """A program in the place of the user's Python: it answers with these readings."""
    (folder / "kept.json").write_text(json.dumps(readings), encoding="utf-8")
    program = folder / "python-stand-in"
    program.write_text(f'#!/bin/sh\ncp "{folder}/kept.json" "$3"\n', encoding="utf-8")
    program.chmod(0o755)
    return program


def answer(call: str, folder: Path, python: Path | str, **variables: str) -> dict:
    return nvml_stub.answer(CALL.format(call=call), HOTKERNEL_STATE_DIR=str(folder / "state"), HOTKERNEL_PYTHON=str(python),
                            **variables)


def test_a_calibration_is_kept_and_used_by_roofline_and_gpu_info(tmp_path):
    python = stand_in(tmp_path, hand.readings())

    made = answer("calibration.calibrate(session)", tmp_path, python)
    roofs = answer("gpu.roofline(session, flops=1e6, bytes=134217728)", tmp_path, python)
    card = answer("gpu.gpu_info(session)", tmp_path, python)["gpus"][0]

    assert (made["saved"], made["reason"], made["gpu_uuid"]) == (True, None, UUID)
    assert Path(made["path"]).is_file()
    assert made["aa_noise_pct"] == pytest.approx(0.3)
    assert made["error_pct"] == pytest.approx(0.93, abs=0.01)
    assert made["highest_gbps"]["write"] == pytest.approx(4670, rel=0.01)
    assert 3900 < roofs["measured_bandwidth_gbps"] < 4680
    assert roofs["measured_tflops"] == pytest.approx(785, abs=1)
    assert card["calibration"]["highest_gbps"] == made["highest_gbps"]
    assert len(json.dumps(made)) < 9000, "it must reach the model whole"


@pytest.mark.parametrize("words", ["0", "h200", UUID, "NVIDIA H200"])
def test_a_card_is_meant_by_number_key_uuid_or_name(tmp_path, words):
    assert answer(f"calibration.calibrate(session, {words!r})", tmp_path, stand_in(tmp_path, hand.readings()))["saved"]


def test_readings_above_the_data_sheet_are_told_and_not_kept(tmp_path):
    made = answer("calibration.calibrate(session)", tmp_path, stand_in(tmp_path, hand.readings(scale=0.8)))

    assert (made["saved"], made["path"]) == (False, None)
    assert "a cache posed as memory" in made["reason"]
    assert made["highest_gbps"]["copy"] > 4800
    assert not list((tmp_path / "state").rglob("*.json"))


def test_a_quick_calibration_does_not_replace_a_full_one(tmp_path):
    python = stand_in(tmp_path, hand.readings())
    quick = "calibration.calibrate(session, quick=True)"

    assert answer(quick, tmp_path, python)["saved"], "where there is none it is better than nothing"
    assert answer("calibration.calibrate(session)", tmp_path, python)["saved"]
    assert "stands" in answer(quick, tmp_path, python)["reason"]


def test_a_full_disk_loses_the_file_and_not_the_answer(tmp_path):
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "calibrations").write_text("no folder", encoding="utf-8")

    made = answer("calibration.calibrate(session)", tmp_path, stand_in(tmp_path, hand.readings()))

    assert not made["saved"]
    assert made["highest_gbps"]


def test_another_cards_readings_are_an_error(tmp_path):
    python = stand_in(tmp_path, hand.readings(uuid="00000000-0000-0000-0000-000000000000"))

    assert "was meant" in answer("calibration.calibrate(session)", tmp_path, python)["error"]


def test_a_python_that_leaves_no_readings_is_an_error_with_its_words(tmp_path):
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1\n", encoding="utf-8")
    program.chmod(0o755)

    error = answer("calibration.calibrate(session)", tmp_path, program)

    assert "cannot import torch" in error["error"]
    assert "HOTKERNEL_PYTHON" in error["fix"]


@NO_CARD
def test_a_torch_that_sees_no_card_is_an_error_that_names_it(tmp_path):
    pytest.importorskip("torch")

    error = answer("calibration.calibrate(session, quick=True)", tmp_path, sys.executable)

    assert error["error"].startswith("no card is here for torch: ")
    assert "built for CUDA" in error["fix"]


@NO_CARD
def test_no_card_is_an_error_with_the_drivers_reason(tmp_path):
    with pytest.raises(ToolError, match="no card is here") as refused:
        tool.calibrate(Session(root=tmp_path, environment={}))
    assert refused.value.fix


def test_a_card_that_is_hidden_missing_or_cut_in_slices_is_an_error(tmp_path):
    python = stand_in(tmp_path, hand.readings())

    hidden = answer("calibration.calibrate(session)", tmp_path, python, CUDA_VISIBLE_DEVICES="")
    assert "hides every card" in hidden["error"]
    assert "name one of 0 (NVIDIA H200)" in answer("calibration.calibrate(session, '3')", tmp_path, python)["fix"]
    assert "MIG" in answer("calibration.calibrate(session)", tmp_path, python, STUB_MIG="1")["error"]


# Watching the card -----------------------------------------------------------------------------------------------------


class Card:
    """A driver's answers, set by hand."""

    def __init__(self, *, used_pct: int = 0, processes: int = 0, mask: int = 0) -> None:
        self.used_pct, self.held, self.mask = used_pct, processes, mask

    def processes(self, handle):
        return tuple(GpuProcess(number, f"job{number}", None) for number in range(self.held))

    def state(self, handle):
        return GpuState(345, 3201, 40, 80.0, (), self.mask, self.used_pct, self.processes(handle))

    def clock_and_reasons(self, handle):
        return 1980, self.mask


@pytest.fixture
def here(tmp_path) -> Session:
    return Session(root=tmp_path, environment={})


def test_a_busy_card_is_not_calibrated(here):
    with pytest.raises(ToolError, match="busy") as refused:
        tool._Watch(here, Card(used_pct=80, processes=1), None)
    assert "job0" in refused.value.fix


def test_an_idle_neighbour_is_a_warning_and_one_that_comes_spoils_it(here, tmp_path):
    card = Card(processes=1)
    watch = tool._Watch(here, card, None)
    card.held = 1 + tool.OWN_PROCESSES
    watch(1.0)

    assert watch.objection() is None
    assert "1 other process held the card" in watch.warnings()[0]

    card.held += 1
    watch(2.0)
    assert "another process came" in str(watch.objection())


@pytest.mark.parametrize(("part", "spoils"), [("bandwidth", True), ("matrix", False)])
def test_a_slowdown_spoils_the_bandwidth_and_is_told_of_the_matrices(here, tmp_path, part, spoils):
    card = Card()
    watch = tool._Watch(here, card, None)
    watch.file = tmp_path / "readings.json"
    watch.file.write_text(json.dumps({"stage": part}), encoding="utf-8")
    card.mask = 0x40
    watch(1.0)

    assert (watch.objection() is not None) is spoils
    assert bool(watch.warnings()) is not spoils


def test_the_power_cap_is_steady_state(here):
    watch = tool._Watch(here, Card(mask=0x04), None)
    watch(1.0)

    assert watch.objection() is None
    assert watch.warnings() == []


def test_both_plans_can_be_told_to_the_script():
    for quick in (False, True):
        assert from_plain(CalibrationPlan, json.loads(json.dumps(to_plain(judge.plan(quick))))) == judge.plan(quick)
