"""On a machine with a card: what calibrate reads can be true and is used, and doctor's probes and self-test hold."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from hotkernel.judge import gpu_specs, roofline
from hotkernel.machine import driver
from hotkernel.records import calibrations
from hotkernel.schema.calibration import CalibrationResult
from hotkernel.schema.doctor import CaseStatus, CheckStatus, DoctorReport
from hotkernel.schema.plain import to_plain
from hotkernel.schema.roofline import Calibration
from hotkernel.session import Session
from hotkernel.tools import calibration, doctor
from hotkernel.tools import gpu as tools

pytestmark = pytest.mark.gpu

H200 = gpu_specs.table()["h200sxm"]


@pytest.fixture(scope="module")
def here(tmp_path_factory) -> Session:
    reason = driver.list_gpus().reason
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("calibration")
    return Session(root=folder, environment={**os.environ, "HOTKERNEL_STATE_DIR": str(folder / "state")})


@pytest.fixture(scope="module")
def made(here) -> CalibrationResult:
    result = calibration.calibrate(here)
    print(json.dumps(to_plain(result), indent=1))
    return result


@pytest.fixture(scope="module")
def kept(here, made) -> Calibration:
    assert made.saved, made.reason
    card = driver.visible(driver.list_gpus().gpus, here.environment)[0]
    loaded = calibrations.load(Path(here.environment["HOTKERNEL_STATE_DIR"]), card.uuid, card.driver, card.power_limit_w)
    assert loaded.calibration is not None, loaded.reason
    return loaded.calibration


def is_h200() -> bool:
    return any(gpu.name == "NVIDIA H200" for gpu in driver.list_gpus().gpus)


def test_every_part_was_measured(made):
    assert set(made.highest_gbps) == {"read", "write", "copy", "triad"}
    assert made.l2_copy_gbps
    assert made.launch_gap_us
    assert made.host_launch_us
    assert len(made.noise) == 4
    assert "bf16" in {row.dtype for row in made.matrix} or made.warnings


def test_no_bandwidth_is_above_the_data_sheet_and_none_is_far_below(made):
    shares = [point.sheet_pct for point in made.bandwidth if point.sheet_pct is not None]

    assert max(shares, default=0.0) <= 100.0 + made.error_pct
    for operation, gbps in made.highest_gbps.items():
        top = max(point.gbps for point in made.bandwidth if point.operation == operation)
        assert top == gbps
    assert 0 < made.error_pct < 10


def test_the_curves_rise_to_their_largest_size_within_a_few_percent(kept):
    for operation, points in kept.curves.items():
        assert points[-1].gbps > 0.93 * max(point.gbps for point in points), operation
        assert points[0].gbps < 1.05 * points[-1].gbps, f"{operation}: a cache poses as memory at small sizes"


def test_a_copy_within_the_l2_is_faster_than_one_through_memory(made):
    assert made.l2_copy_gbps > made.highest_gbps["copy"]


def test_an_h200_reads_as_h200s_were_seen_to(made):
    if not is_h200():
        pytest.skip("no H200 here")
    rates = {row.dtype: row for row in made.matrix}

    assert made.highest_gbps["copy"] == pytest.approx(4300, rel=0.03)
    # The ceiling is what can be read at all. torch.sum over 1 GiB reached 4,320 there; a Triton kernel that does nothing
    # but read reached 4,583 in two whole calibrations, rising steadily with the size and below both the fill's 4,686 and
    # the sheet's 4,800. Held to the former, an honest reader could lie above its ceiling, and the floor would refuse it.
    assert made.highest_gbps["read"] == pytest.approx(4583, rel=0.03)
    assert made.highest_gbps["write"] == pytest.approx(4650, rel=0.04)
    assert made.highest_gbps["triad"] == pytest.approx(4360, rel=0.03)
    assert rates["bf16"].sustained_tflops == pytest.approx(760, rel=0.12)
    assert made.aa_noise_pct < 1.0


def test_roofline_uses_it_and_the_floor_lies_below_what_a_copy_takes(here, made, kept):
    moved = 134_217_728
    result = tools.roofline(here, flops=1e6, bytes=moved)
    near = min((point for point in made.bandwidth if point.operation == "copy"), key=lambda point: abs(point.moved_bytes - moved))

    assert result.attainable_ms_measured
    assert roofline.floor_us(kept, near.moved_bytes) < near.moved_bytes / near.gbps / 1e3


def test_a_quick_one_reads_the_same_within_its_error(here, made):
    quick_state = Path(here.environment["HOTKERNEL_STATE_DIR"]) / "quick"
    quick = calibration.calibrate(
        dataclasses.replace(here, environment={**here.environment, "HOTKERNEL_STATE_DIR": str(quick_state)}), quick=True)
    print(json.dumps(to_plain(quick), indent=1))

    assert quick.saved, quick.reason
    for operation, gbps in quick.highest_gbps.items():
        assert gbps == pytest.approx(made.highest_gbps[operation], rel=(quick.error_pct + made.error_pct) / 100)


@pytest.fixture(scope="module")
def report(here) -> DoctorReport:
    result = doctor.doctor(here, selftest=True)
    here.nursery.close()
    print(json.dumps(to_plain(result), indent=1))
    return result


def test_doctor_sees_what_a_verify_on_the_card_needs(report):
    checks = {check.name: check for check in report.checks}

    for name in ("driver", "torch", "triton", "cuda_ipc"):
        assert checks[name].status is CheckStatus.OK, checks[name]
    assert checks["clocks"].detail
    for name in ("nsys", "ncu"):
        assert checks[name].status is CheckStatus.OK or checks[name].fix, checks[name]


def test_the_selftest_comes_out_as_it_should_on_the_card(report):
    assert report.selftest is not None
    assert report.selftest.device == "cuda"
    for case in report.selftest.cases:
        assert case.status is CaseStatus.PASSED, case
