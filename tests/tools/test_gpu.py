"""The tools gpu_info, roofline and plot: with no card, under a stand-in driver with one, and from the table alone."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "machine"))
import nvml_stub

from hotkernel.errors import ToolError
from hotkernel.machine import driver
from hotkernel.schema.gpu import Gpu, MigDevice
from hotkernel.schema.plain import to_plain
from hotkernel.schema.roofline import Bound
from hotkernel.session import Session
from hotkernel.tools import gpu as tools

NO_CARD = pytest.mark.skipif(bool(driver.list_gpus().gpus), reason="this machine has a card")
UUID = "GPU-fcdd3975-a188-f16e-478e-b9068b3bcdc7"

# Run under the stand-in driver, whose one card is an H200.
CALL = """
import os
from hotkernel.session import Session
from hotkernel.tools import gpu as tools
from hotkernel.errors import ToolError
session = Session()
try:
    answer = {call}
except ToolError as error:
    answer = {{"error": error.message, "fix": error.fix}}
"""
CALIBRATE = """
import datetime
from hotkernel.records import calibrations
from hotkernel.records.state import state_dir
from hotkernel.schema.roofline import *
now = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days={age})
curve = (BandwidthPoint(134217728, 3900.0), BandwidthPoint(2147483648, 4300.0))
calibrations.save(state_dir(os.environ), Calibration("NVIDIA H200", "{uuid}", "580.159.04", 700.0, now.isoformat(),
    {{"copy": curve}}, 1.0, {{"bf16": MatrixRate(790.0, 700.0)}}))
"""


def answer(call: str, state: Path, age: float | None = None, **variables: str) -> dict:
    code = CALL.format(call=call)
    if age is not None:
        code = code.replace("session = Session()", "session = Session()" + CALIBRATE.format(age=age, uuid=UUID))
    return nvml_stub.answer(code, HOTKERNEL_STATE_DIR=str(state), **variables)


@pytest.fixture
def session(tmp_path):
    return Session(root=tmp_path, environment={"HOTKERNEL_STATE_DIR": str(tmp_path / "state")})


@NO_CARD
def test_with_no_driver_the_list_is_empty_and_says_why_and_what_to_do(session):
    info = tools.gpu_info(session)

    assert info.gpus == ()
    assert info.reason
    assert info.fix
    assert info.platform.startswith(("Linux", "Darwin", "Windows"))


def test_a_card_comes_with_its_peaks_and_the_reason_why_it_has_no_calibration(tmp_path):
    info = answer("tools.gpu_info(session)", tmp_path)
    card = info["gpus"][0]

    assert (info["driver"], info["cuda_version"], info["reason"]) == ("580.159.04", "13.0", None)
    assert (card["name"], card["uuid"], card["memory_total_mib"]) == ("NVIDIA H200", UUID, 143_771)
    assert card["peaks"]["key"] == "h200sxm"
    assert card["peaks"]["tflops"]["bf16"] == pytest.approx(989, abs=1)
    assert card["peaks"]["l2_bytes"] == 62_914_560
    assert card["calibration"] is None
    assert "calibrate" in card["calibration_note"]
    assert card["visible"] is True


def test_a_saved_calibration_is_shown_with_the_card(tmp_path):
    card = answer("tools.gpu_info(session)", tmp_path, age=1)["gpus"][0]

    assert card["calibration"]["highest_gbps"] == {"copy": 4300.0}
    assert card["calibration"]["burst_tflops"] == {"bf16": 790.0}
    assert card["calibration_note"] is None


def test_the_answer_for_a_card_is_small(tmp_path):
    info = answer("tools.gpu_info(session)", tmp_path, age=1, STUB_PIDS="12,13")

    assert len(json.dumps(info)) < 4000


def test_a_hidden_card_is_shown_as_hidden_and_is_not_the_first_here(tmp_path):
    assert answer("tools.gpu_info(session)", tmp_path, CUDA_VISIBLE_DEVICES="")["gpus"][0]["visible"] is False
    error = answer("tools.roofline(session)", tmp_path, CUDA_VISIBLE_DEVICES="")
    assert "CUDA_VISIBLE_DEVICES hides every card" in error["error"]


SEVERAL = {"STUB_CARDS": "3", "STUB_NAME": "NVIDIA H200;NVIDIA GeForce RTX 4090 Laptop GPU;NVIDIA GeForce RTX 4090"}


def test_of_several_cards_each_has_its_own_name_and_peaks(tmp_path):
    gpus = answer("tools.gpu_info(session)", tmp_path, **SEVERAL)["gpus"]

    assert [gpu["peaks"]["key"] for gpu in gpus] == ["h200sxm", "", "rtx4090"]
    assert [gpu["peaks"]["worked_out"] for gpu in gpus] == [False, True, False]
    assert len({gpu["uuid"] for gpu in gpus}) == 3
    assert [gpu["visible"] for gpu in gpus] == [True, True, True]


def test_which_of_several_cards_is_meant_is_the_first_visible_or_the_one_that_is_named(tmp_path):
    first = answer("tools.roofline(session)", tmp_path, **SEVERAL)
    third = answer("tools.roofline(session, gpu='2')", tmp_path, **SEVERAL)
    shown = answer("tools.roofline(session)", tmp_path, **SEVERAL, CUDA_VISIBLE_DEVICES="1")
    hidden = answer("tools.roofline(session, gpu='0')", tmp_path, **SEVERAL, CUDA_VISIBLE_DEVICES="1")

    assert [each["key"] for each in (first, third, shown)] == ["h200sxm", "rtx4090", ""]
    assert shown["gpu"] == "NVIDIA GeForce RTX 4090 Laptop GPU"
    assert "no card 0 is here" in hidden["error"]


def test_a_card_that_fell_off_the_bus_does_not_hide_the_others(tmp_path):
    gpus = answer("tools.gpu_info(session)", tmp_path, **SEVERAL, STUB_LOST="1")["gpus"]

    assert [gpu["name"] for gpu in gpus] == ["NVIDIA H200", None, "NVIDIA GeForce RTX 4090"]
    assert gpus[1]["warnings"]
    assert gpus[1]["peaks"] is None


def test_a_driver_that_lists_no_processes_is_a_warning(tmp_path):
    info = answer("tools.gpu_info(session)", tmp_path, STUB_REFUSE="nvmlDeviceGetComputeRunningProcesses_v3=3")

    assert "unknown" in info["warnings"][0]


def test_an_unknown_card_is_worked_out(tmp_path):
    card = answer("tools.gpu_info(session)", tmp_path, STUB_NAME="NVIDIA H20", STUB_CORES=str(78 * 128))["gpus"][0]

    assert card["peaks"]["worked_out"] is True
    assert card["peaks"]["key"] == ""
    assert card["peaks"]["bandwidth_gbps"] == pytest.approx(6144 / 8 * 3201 * 2 / 1000)


def test_the_first_card_here_is_the_default_and_names_why_nothing_was_measured(tmp_path):
    result = answer("tools.roofline(session, flops=2.7e8, bytes=1.34e8)", tmp_path)

    assert result["key"] == "h200sxm"
    assert result["bound"] == "memory"
    assert result["attainable_ms"] == pytest.approx(1.34e8 / 4800e6)
    assert result["attainable_ms_measured"] is None
    assert "calibrate" in result["notes"][-1]


@pytest.mark.parametrize("name", ["", "h200", "0", UUID, "NVIDIA H200"])
def test_a_calibrated_card_is_held_against_its_own_curve_however_it_is_named(tmp_path, name):
    result = answer(f"tools.roofline(session, {name!r}, flops=1e6, bytes=134217728)", tmp_path, age=1)

    assert result["measured_bandwidth_gbps"] == pytest.approx(3900)
    assert result["measured_tflops"] == 790
    assert result["attainable_ms_measured"] == pytest.approx(134217728 / 3900e6)
    assert "calibration" in result["sources"]["measured_bandwidth_gbps"]


def test_an_expired_calibration_is_not_used_and_that_is_said(tmp_path):
    result = answer("tools.roofline(session, flops=1e6, bytes=134217728)", tmp_path, age=31)

    assert result["attainable_ms_measured"] is None
    assert "31 days old" in result["notes"][-1]


def test_another_cards_calibration_is_not_used(tmp_path):
    result = answer("tools.roofline(session, 'rtx5090', flops=1e6, bytes=134217728)", tmp_path, age=1)

    assert result["measured_bandwidth_gbps"] is None


def test_a_given_bandwidth_goes_before_the_calibrations(tmp_path):
    result = answer("tools.roofline(session, flops=1e6, bytes=4e9, measured_mem_gbs=4000)", tmp_path, age=1)

    assert result["attainable_ms_measured"] == pytest.approx(1.0)
    assert result["measured_tflops"] == 790
    assert result["sources"]["measured_bandwidth_gbps"] == "given by the caller"


def test_so_few_bytes_that_they_live_in_the_cache_have_no_measured_time(tmp_path):
    result = answer("tools.roofline(session, bytes=1e5)", tmp_path, age=1)

    assert result["attainable_ms_measured"] is None
    assert "cache" in result["notes"][-1]


def test_a_card_in_mig_mode_has_its_slices_peaks_and_no_calibration(tmp_path):
    result = answer("tools.roofline(session)", tmp_path, age=1, STUB_MIG="1")

    assert result["peak_tflops"] == pytest.approx(989.5 * 16 / 132)
    assert result["worked_out"] is True
    assert "MIG" in " ".join(result["notes"])
    assert result["measured_bandwidth_gbps"] is None


def test_a_number_or_uuid_that_is_not_here_is_an_error(tmp_path):
    assert "no card 3 is here" in answer("tools.roofline(session, '3')", tmp_path)["error"]
    assert "is here" in answer("tools.roofline(session, 'GPU-00')", tmp_path)["error"]


def test_a_card_of_the_table_needs_no_card_here(session):
    result = tools.roofline(session, "rtx5090", flops=1e12, bytes=1e6)

    assert result.bound is Bound.COMPUTE
    assert result.attainable_tflops == pytest.approx(209.5)
    assert result.peak_bandwidth_gbps == 1792


def test_a_rate_that_no_document_gives_is_worked_out_and_marked(session):
    result = tools.roofline(session, "gb10", flops=1e12, bytes=1e9, dtype="bf16")

    assert result.worked_out
    assert result.sources["peak_tflops"].startswith("worked out from 48 multiprocessors")


@NO_CARD
def test_no_card_and_no_name_is_an_error_that_says_how_to_name_one(session):
    with pytest.raises(ToolError, match="no card is here") as caught:
        tools.roofline(session)
    assert "gpu='h200'" in caught.value.fix


def test_an_ambiguous_name_is_answered_with_the_names_there_are(session):
    with pytest.raises(ToolError, match="h100") as caught:
        tools.roofline(session, "h100")
    assert caught.value.fix == "did you mean h100sxm, h100pcie, h100nvl?"


def test_a_bandwidth_of_nothing_is_refused(session):
    with pytest.raises(ToolError, match="above 0"):
        tools.roofline(session, "h200", measured_mem_gbs=0)


def test_a_jetson_and_a_slice_are_not_a_whole_card():
    jetson = Gpu(0, name="Orin (nvgpu)", compute_capability="8.7", board="NVIDIA Jetson AGX Orin Developer Kit")
    part = Gpu(0, name="NVIDIA H200", compute_capability="9.0", sm_count=132, mig=True,
               mig_devices=(MigDevice("MIG-1", "NVIDIA H200 MIG 1g.18gb", 16_384, 16),))

    assert tools.spec_of(jetson).key == "jetsonorin"
    assert tools.spec_of(part).key == ""


def test_the_plot_is_written_to_the_state_folder_with_its_kernels(session, tmp_path):
    picture = tools.plot(session, "h200", kernels=["rmsnorm:2.7e8:1.34e8:0.036", "a::b:1e12:1e9:2"], format="svg")
    path = Path(picture.path)

    assert path.is_relative_to(tmp_path / "state")
    assert path.stat().st_size == picture.bytes
    assert picture.media_type == "image/svg+xml"
    assert picture.kernels == ("rmsnorm", "a::b")
    assert "rmsnorm: 0.036 ms" in path.read_text("utf-8")


def test_the_same_plot_again_is_the_same_file(session):
    paths = {tools.plot(session, "h200", format="svg").path for _ in range(2)}

    assert len(paths) == 1


def test_a_plot_is_a_png_by_default(session):
    pytest.importorskip("matplotlib", reason="matplotlib is the extra `plot`")
    picture = tools.plot(session, "h200")

    assert Path(picture.path).read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    assert picture.media_type == "image/png"


@pytest.mark.parametrize("text", ["rmsnorm", "a:1:2", "a:1:2:x", "a:0:1:1", "a:1:1:nan", "a:1:inf:1"])
def test_a_kernel_that_is_none_is_refused_with_the_right_form(session, text):
    with pytest.raises(ToolError, match="no kernel") as caught:
        tools.plot(session, "h200", kernels=[text], format="svg")
    assert "name:flops:bytes:ms" in caught.value.fix


def test_a_plot_of_an_unknown_comparison_or_with_no_roof_is_a_clear_error(session):
    with pytest.raises(ToolError, match="20260101-000000-abcdefgh"):
        tools.plot(session, "h200", comparison="20260101-000000-abcdefgh", format="svg")
    with pytest.raises(ToolError, match="fp4"):
        tools.plot(session, "t4", dtype="fp4", format="svg")


def test_results_are_plain_json(session):
    json.dumps(to_plain(tools.roofline(session, "h200", flops=1e9, bytes=1e9)), allow_nan=False)
    json.dumps(to_plain(tools.gpu_info(session)), allow_nan=False)
