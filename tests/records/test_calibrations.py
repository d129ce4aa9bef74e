"""Calibrations are kept per card, driver and power limit, whole or not at all, for 30 days; broken files do no harm."""

from __future__ import annotations

import dataclasses
import datetime
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from hotkernel.errors import ToolError
from hotkernel.records import calibrations
from hotkernel.records.state import state_dir
from hotkernel.schema.roofline import BandwidthPoint, Calibration, MatrixRate

NOW = datetime.datetime(2026, 11, 30, 12, 0, tzinfo=datetime.UTC)
H200 = Calibration(
    gpu="NVIDIA H200", gpu_uuid="GPU-fcdd3975-a188-f16e-478e-b9068b3bcdc7", driver="580.159.04", power_limit_w=700.0,
    made_at="2026-11-30T11:41:49+00:00", curves={"copy": (BandwidthPoint(2**30, 4300.0),)}, error_pct=1.0,
    matrix={"bf16": MatrixRate(790.0, 700.0)}, launch_gap_us=1.0)
ITS_OWN = (H200.gpu_uuid, H200.driver, H200.power_limit_w)


def test_what_was_saved_is_what_is_loaded(tmp_path):
    path = calibrations.save(tmp_path, H200)

    assert calibrations.load(tmp_path, *ITS_OWN, NOW) == calibrations.Kept(H200)
    assert path.parent == tmp_path / "calibrations"
    assert [each.name for each in path.parent.iterdir()] == [path.name]


def test_a_card_that_was_never_calibrated_is_told_to_be(tmp_path):
    kept = calibrations.load(tmp_path, *ITS_OWN, NOW)

    assert kept.calibration is None
    assert "call calibrate" in (kept.reason or "")


@pytest.mark.parametrize("other", [
    ("GPU-another", H200.driver, 700.0), (H200.gpu_uuid, "595.45.04", 700.0), (H200.gpu_uuid, H200.driver, 500.0),
    (H200.gpu_uuid, H200.driver, None)])
def test_another_card_driver_or_power_limit_has_a_calibration_of_its_own(tmp_path, other):
    calibrations.save(tmp_path, H200)
    assert calibrations.load(tmp_path, *other, NOW).calibration is None

    uuid, driver, power = other
    theirs = dataclasses.replace(H200, gpu_uuid=uuid, driver=driver, power_limit_w=power, error_pct=2.0)
    calibrations.save(tmp_path, theirs)
    assert calibrations.load(tmp_path, *other, NOW).calibration == theirs
    assert calibrations.load(tmp_path, *ITS_OWN, NOW).calibration == H200


def test_a_changed_driver_or_power_limit_is_given_as_the_reason(tmp_path):
    calibrations.save(tmp_path, H200)

    reason = calibrations.load(tmp_path, H200.gpu_uuid, "595.45.04", 700.0, NOW).reason
    assert "another driver or power limit (580.159.04 at 700W)" in (reason or "")


@pytest.mark.parametrize(("days", "used"), [
    (0, True), (29.9, True), (30.1, False), (400, False), (-0.5, True), (-2, False)])
def test_after_thirty_days_or_from_the_future_it_is_not_used_and_that_is_said(tmp_path, days, used):
    made = NOW - datetime.timedelta(days=days)
    calibrations.save(tmp_path, dataclasses.replace(H200, made_at=made.isoformat()))

    kept = calibrations.load(tmp_path, *ITS_OWN, NOW)
    assert (kept.calibration is not None) is used
    assert used or "call calibrate" in (kept.reason or "")


def test_an_expired_one_stays_on_the_disk(tmp_path):
    path = calibrations.save(tmp_path, dataclasses.replace(H200, made_at="2026-01-01T00:00:00+00:00"))
    calibrations.load(tmp_path, *ITS_OWN, NOW)

    assert path.is_file()


@pytest.mark.parametrize("content", [
    b"", b"{", b"[]", b"\xff\xfe", b'{"schema": 1}', b'{"schema": 1, "gpu": 3}', b'{"schema": NaN}'])
def test_a_broken_file_is_set_aside_with_a_message_and_the_next_save_works(tmp_path, content):
    path = calibrations.save(tmp_path, H200)
    path.write_bytes(content)

    kept = calibrations.load(tmp_path, *ITS_OWN, NOW)
    assert kept.calibration is None
    assert "broken" in kept.warnings[0]
    assert not path.exists()
    assert path.with_name(path.name + ".broken").read_bytes() == content
    calibrations.save(tmp_path, H200)
    assert calibrations.load(tmp_path, *ITS_OWN, NOW).calibration == H200


def test_a_file_of_a_newer_hotkernel_is_neither_used_nor_touched(tmp_path):
    path = calibrations.save(tmp_path, dataclasses.replace(H200, schema=99))

    assert "another hotkernel" in (calibrations.load(tmp_path, *ITS_OWN, NOW).reason or "")
    assert path.is_file()


def test_a_calibration_copied_to_another_cards_name_is_not_believed(tmp_path):
    path = calibrations.save(tmp_path, H200)
    theirs = path.with_name(path.name.replace("GPU-fcdd3975", "GPU-00000000"))
    path.rename(theirs)

    kept = calibrations.load(tmp_path, "GPU-00000000-a188-f16e-478e-b9068b3bcdc7", H200.driver, 700.0, NOW)
    assert kept.calibration is None
    assert "another card's" in kept.warnings[0]


def test_a_date_that_is_none_is_a_broken_file(tmp_path):
    calibrations.save(tmp_path, dataclasses.replace(H200, made_at="yesterday"))

    assert "yesterday" in calibrations.load(tmp_path, *ITS_OWN, NOW).warnings[0]


def test_a_card_without_a_uuid_has_no_calibration(tmp_path):
    assert "uuid" in (calibrations.load(tmp_path, None, "580.159.04", 700.0).reason or "")


def test_a_uuid_cannot_lead_out_of_the_folder(tmp_path):
    path = calibrations.save(tmp_path, dataclasses.replace(H200, gpu_uuid="../../etc/GPU-1"))

    assert path.parent == tmp_path / "calibrations"


FULL_DISK = """
import resource, sys
from pathlib import Path
sys.path[:0] = [{src!r}, {here!r}]
from test_calibrations import H200, calibrations
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
try:
    calibrations.save(Path({state!r}), H200)
except calibrations.files.ToolError as error:
    print(error.message)
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="needs a limit on a file's size")
def test_a_full_disk_leaves_the_older_calibration_and_nothing_half_written(tmp_path):
    path = calibrations.save(tmp_path, H200)
    before = path.read_bytes()
    code = FULL_DISK.format(src=str(Path(calibrations.__file__).parents[2]), here=str(Path(__file__).parent),
                            state=str(tmp_path))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert "was not written" in done.stdout
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_may_not_be_written_is_a_clear_error(tmp_path):
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(ToolError, match="was not written"):
            calibrations.save(tmp_path, H200)
    finally:
        tmp_path.chmod(0o700)


def test_the_state_folder_is_named_by_the_environment_else_the_users_own(tmp_path):
    own = state_dir({})

    assert state_dir({"HOTKERNEL_STATE_DIR": str(tmp_path)}) == tmp_path
    assert own.is_absolute()
    assert own.name == "hotkernel"
    assert state_dir({"HOTKERNEL_STATE_DIR": ""}) == own
    assert state_dir({"HOTKERNEL_STATE_DIR": "${user_config.state}"}) == own
    assert state_dir({"HOTKERNEL_STATE_DIR": "~/kept"}) == Path.home() / "kept"
