"""doctor: the real checks on this machine, each thing that can be wrong made wrong, and the self-test's cases."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "machine"))
import nvml_stub
from stand_ins import executable, session, stand_in, write

from hotkernel.machine import driver
from hotkernel.schema.doctor import CaseStatus, CheckStatus, DoctorCheck, DoctorReport
from hotkernel.schema.plain import from_plain
from hotkernel.session import Session
from hotkernel.tools import doctor as tool
from hotkernel.tools import doctor_card, doctor_machine, doctor_python, selftest

NO_CARD = pytest.mark.skipif(bool(driver.list_gpus().gpus), reason="this machine has a card")
SRC = Path(__file__).parents[2] / "src"
CUBIN = Path(__file__).parents[1] / "fixtures" / "sass" / "kernels_sm90.cubin"
CARD_CALL = """
from hotkernel.session import Session
from hotkernel.tools import doctor_card
session = Session()
listed, here = doctor_card.cards_here(session)
answer = {call}
"""


def by_name(checks) -> dict[str, DoctorCheck]:
    return {check.name: check for check in checks}


# The whole report ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report(tmp_path_factory) -> DoctorReport:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("doctor")
    return tool.doctor(session(folder, HOTKERNEL_STATE_DIR=str(folder / "state"), PATH=os.environ["PATH"]))


def test_a_machine_with_torch_passes_what_a_verify_on_the_cpu_needs(report):
    checks = by_name(report.checks)

    for name in ("python", "torch", "folders"):
        assert checks[name].status is CheckStatus.OK, checks[name]
    assert "import takes" in checks["torch"].detail or "timed on the CPU" in checks["torch"].detail
    assert checks["read_process"].status in (CheckStatus.OK, CheckStatus.WARNING)
    assert {"platform", "environment", "processor", "driver", "triton", "cuda_ipc", "confinement", "nsys", "ncu",
            "ncu_report", "cuobjdump", "nvdisasm"} <= checks.keys()


@NO_CARD
def test_with_no_card_what_needs_one_is_skipped_and_nothing_fails(report):
    checks = by_name(report.checks)

    assert checks["triton"].status is checks["cuda_ipc"].status is checks["ncu"].status is CheckStatus.SKIPPED
    assert checks["driver"].status is CheckStatus.WARNING
    assert "calibration" not in checks
    assert report.overall is CheckStatus.WARNING


def test_the_worst_comes_first_and_the_report_reaches_a_model_whole(report):
    ranks = [tool.WORST_FIRST.index(check.status) for check in report.checks]

    assert ranks == sorted(ranks)
    assert report.overall is report.checks[0].status
    assert f"{sum(check.status is CheckStatus.OK for check in report.checks)} ok" in report.message
    assert len(json.dumps([vars(check) for check in report.checks])) < 10_000


def test_a_warning_without_a_fix_cannot_be_built():
    with pytest.raises(ValueError, match="fix=None"):
        DoctorCheck("nsys", CheckStatus.WARNING, "it is broken")
    DoctorCheck("nsys", CheckStatus.SKIPPED, "no card")


# The user's Python -----------------------------------------------------------------------------------------------------


def test_no_python_with_torch_is_a_failure_that_names_the_variable(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(executable(tmp_path / "own", "exit 1")))
    (only,) = doctor_python.python_checks(session(tmp_path, HOTKERNEL_PYTHON="", PATH=""), tmp_path, has_card=False)

    assert (only.name, only.status) == ("python", CheckStatus.FAIL)
    assert "HOTKERNEL_PYTHON" in str(only.fix)


def test_a_python_without_torch_says_so_and_the_rest_is_still_tried(tmp_path):
    bare = executable(tmp_path / "bare-python", f'exec {sys.executable} -S "$@"')

    checks = by_name(doctor_python.python_checks(session(tmp_path, HOTKERNEL_PYTHON=str(bare)), tmp_path, has_card=False))

    assert checks["torch"].status is CheckStatus.FAIL
    assert "No module named 'torch'" in checks["torch"].detail
    assert "confinement" in checks
    assert "triton" not in checks


def test_a_python_that_does_not_start_is_a_failure_with_its_last_words(tmp_path):
    broken = executable(tmp_path / "broken-python", "echo libpython is missing >&2; exit 127")

    (only,) = doctor_python.python_checks(session(tmp_path, HOTKERNEL_PYTHON=str(broken)), tmp_path, has_card=False)

    assert "exit status 127: libpython is missing" in only.detail


@NO_CARD
def test_a_card_that_torch_does_not_see_is_a_failure(tmp_path):
    pytest.importorskip("torch")

    checks = by_name(doctor_python.python_checks(session(tmp_path), tmp_path, has_card=True))

    assert checks["torch"].status is CheckStatus.FAIL
    assert "built for CUDA" in str(checks["torch"].fix)


def test_an_interpreter_that_the_client_did_not_fill_in_is_a_warning(tmp_path):
    pytest.importorskip("torch")
    folder = str(Path(sys.executable).parent)

    checks = by_name(doctor_python.python_checks(
        session(tmp_path, HOTKERNEL_PYTHON="${user_config.python}", PATH=f"{folder}:/usr/bin:/bin"), tmp_path, has_card=False))

    assert checks["python"].status is CheckStatus.WARNING
    assert "${user_config.python}" in checks["python"].detail


def failing(status: str = "fail", seen: str = "broken", **facts) -> dict:
    return {"status": status, "seen": seen, "facts": facts}


@pytest.mark.parametrize(
    ("seen", "fix"),
    [
        ("RuntimeError: Failed to find C compiler. Please specify via CC", "install gcc or clang"),
        ("CalledProcessError: gcc ... fatal error: Python.h: No such file", "gcc"),
        ("fatal error: Python.h: No such file or directory", "python3-dev"),
        ("ImportError: libtriton.so", "reinstall"),
    ],
)
def test_each_way_that_triton_fails_has_its_own_fix(seen, fix):
    assert fix in doctor_python._triton_fix({"triton": failing(seen=seen)})


def test_a_torch_built_for_other_cards_or_for_rocm_has_its_own_fix():
    old = doctor_python._torch(failing(seen="RuntimeError: CUDA error: no kernel image is available"), has_card=True)
    rocm = doctor_python._torch(failing(seen="torch 2.9 is built for ROCm", hip="6.4"), has_card=True)

    assert "compute capability" in str(old.fix)
    assert "CUDA or CPU build" in str(rocm.fix)


# Probes in processes of their own --------------------------------------------------------------------------------------


def crash(scratch):
    os.kill(os.getpid(), signal.SIGKILL)


def hang(scratch):
    time.sleep(60)


def answer(scratch):
    return "ok", "fine", {"seen": str(scratch)}


def test_a_probe_that_crashes_or_hangs_costs_its_own_answer_alone(tmp_path):
    from hotkernel_contract.probes import in_a_fork

    assert in_a_fork(crash, tmp_path)["seen"] == "it ended by signal 9"
    began = time.monotonic()
    assert "did not end within" in in_a_fork(hang, tmp_path, limit_s=0.3)["seen"]
    assert time.monotonic() - began < 10
    assert in_a_fork(answer, tmp_path) == {"status": "ok", "seen": "fine", "facts": {"seen": str(tmp_path)}}


# The machine -----------------------------------------------------------------------------------------------------------


def environment_check(*, parent: dict[str, str], child: dict[str, str]) -> DoctorCheck:
    """What the check says in a process with `child`'s environment below one with `parent`'s."""
    inner = (f"import sys; sys.path[:0] = {[str(SRC), *sys.path]!r}\n"
             "import os, json\nfrom hotkernel.tools.doctor_machine import environment_check\n"
             "from hotkernel.schema.plain import to_plain\nprint(json.dumps(to_plain(environment_check(dict(os.environ)))))")
    outer = f"import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-S', '-c', {inner!r}], env={child!r}).returncode)"
    done = subprocess.run([sys.executable, "-S", "-c", outer], env={**os.environ, **parent}, capture_output=True, text=True,
                          timeout=60, check=True)
    return from_plain(DoctorCheck, json.loads(done.stdout))


def same_as_here(**changed: str) -> dict[str, str]:
    return {**{name: os.environ[name] for name in doctor_machine.MATTERS if name in os.environ}, "USER": "me", **changed}


def test_a_variable_that_a_parent_has_and_did_not_pass_on_is_named_with_the_clients_fix():
    check = environment_check(parent={"CUDA_HOME": "/opt/cuda", "LD_LIBRARY_PATH": "/opt/lib"}, child=same_as_here())

    assert check.status is CheckStatus.WARNING
    assert "CUDA_HOME" in check.detail
    assert "/opt/cuda" not in check.detail, "names are told, values are not"
    assert 'env_vars = ["CUDA_HOME"' in str(check.fix)


def test_a_bare_environment_is_a_warning_even_where_no_parent_can_be_asked():
    bare = {name: value for name, value in same_as_here().items() if name != "USER"}

    check = environment_check(parent={}, child={**bare, "HOME": "/root"})

    assert check.status is CheckStatus.WARNING
    assert "CUDA_HOME" in check.detail or "CUDA_VISIBLE_DEVICES" in check.detail


def test_what_a_client_left_unfilled_is_named():
    check = doctor_machine.environment_check({"CUDA_VISIBLE_DEVICES": "${env:CUDA_VISIBLE_DEVICES}"})

    assert check.status is CheckStatus.WARNING
    assert "CUDA_VISIBLE_DEVICES" in check.detail


def test_a_whole_environment_is_fine():
    assert environment_check(parent={}, child=same_as_here(CUDA_HOME="/opt/cuda")).status is CheckStatus.OK


def test_a_state_folder_that_cannot_be_written_is_a_failure(tmp_path):
    write(tmp_path / "file", "in the way")

    check = doctor_machine.folder_check(session(tmp_path, HOTKERNEL_STATE_DIR=str(tmp_path / "file" / "state")))

    assert check.status is CheckStatus.FAIL
    assert "HOTKERNEL_STATE_DIR" in str(check.fix)


# The card, under a stand-in driver -------------------------------------------------------------------------------------


def on_a_card(call: str, tmp_path: Path, **variables: str) -> DoctorCheck:
    code = CARD_CALL.format(call=call)
    return from_plain(DoctorCheck, nvml_stub.answer(code, HOTKERNEL_STATE_DIR=str(tmp_path), **variables))


def test_an_idle_card_is_well_and_asks_to_be_calibrated(tmp_path):
    assert on_a_card("doctor_card.driver_check(listed, here)", tmp_path).status is CheckStatus.OK
    assert on_a_card("doctor_card.clocks_check(here[0])", tmp_path).status is CheckStatus.OK
    assert on_a_card("doctor_card.users_check(here[0])", tmp_path).status is CheckStatus.OK
    calibration = on_a_card("doctor_card.calibration_check(session, here[0])", tmp_path)
    assert calibration.status is CheckStatus.WARNING
    assert "calibrate" in str(calibration.fix)


def test_others_on_the_card_are_named_and_blindness_is_no_quiet(tmp_path):
    call = "doctor_card.users_check(here[0])"
    busy = on_a_card(call, tmp_path, STUB_PIDS="12,13")
    blind = on_a_card(call, tmp_path, STUB_REFUSE="nvmlDeviceGetComputeRunningProcesses_v3=3")

    assert busy.status is blind.status is CheckStatus.WARNING
    assert "python12 (12)" in busy.detail
    assert "not seen" in blind.detail


def test_a_slowdown_is_a_warning_and_its_reason_is_told(tmp_path):
    hot = on_a_card("doctor_card.clocks_check(here[0])", tmp_path, STUB_REASONS="0x40")

    assert hot.status is CheckStatus.WARNING
    assert "hw_thermal_slowdown" in hot.detail


def test_hidden_cards_and_slices_are_told(tmp_path):
    hidden = on_a_card("doctor_card.driver_check(listed, here)", tmp_path, CUDA_VISIBLE_DEVICES="")
    part = on_a_card("doctor_card.calibration_check(session, here[0])", tmp_path, STUB_MIG="1")

    assert "every card is hidden" in hidden.detail
    assert part.status is CheckStatus.SKIPPED


# NVIDIA's programs -----------------------------------------------------------------------------------------------------


def test_an_nsys_that_cannot_make_its_report_is_a_failure_with_the_librarys_name(tmp_path):
    check = doctor_card.nsys_check(stand_in(tmp_path, "nsys", 'echo x > "$out.qdstrm"; exit 1'), tmp_path, False, True)

    assert check.status is CheckStatus.FAIL
    assert "libdw1" in str(check.fix)


def test_denied_counters_are_a_failure_with_the_fix_for_each_kind_of_machine(tmp_path):
    denied = 'echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission"; exit 1'

    check = doctor_card.ncu_check(stand_in(tmp_path, "ncu", denied), tmp_path, True, True)

    assert check.status is CheckStatus.FAIL
    assert "NVreg_RestrictProfilingToAdminUsers=0" in str(check.fix)
    assert "--launch-count" in (tmp_path / "called").read_text(encoding="utf-8"), "it was tried, on one launch"


def test_a_profiler_that_is_missing_is_missed_only_where_there_is_a_card(tmp_path):
    if shutil.which("ncu") or list(Path("/opt/nvidia").glob("nsight-compute/*")):
        pytest.skip("this machine has ncu")
    here = session(tmp_path, PATH="")

    assert doctor_card.ncu_check(here, tmp_path, False, has_card=False).status is CheckStatus.SKIPPED
    missed = doctor_card.ncu_check(here, tmp_path, True, has_card=True)
    assert missed.status is CheckStatus.WARNING
    assert "Nsight Compute" in str(missed.fix)


def test_nvidias_reader_of_reports_is_loaded_and_missed_where_it_does_not_load(tmp_path, monkeypatch):
    pytest.importorskip("ncu_report")
    here = session(tmp_path)
    assert re.fullmatch(r"version \d+\.[\d.]+ loads", doctor_card.report_reader_check(here, has_card=True).detail)

    (tmp_path / "ncu_report.py").write_text("raise ImportError('libc of another age')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    missed = doctor_card.report_reader_check(here, has_card=True)
    assert missed.status is CheckStatus.WARNING
    assert "hotkernel[ncu]" in str(missed.fix)
    assert doctor_card.report_reader_check(here, has_card=False).status is CheckStatus.SKIPPED


@pytest.mark.parametrize("name", ["cuobjdump", "nvdisasm"])
def test_a_disassembler_reads_a_real_kernel_and_fails_on_one_that_it_does_not_know(tmp_path, name):
    pytest.importorskip("nvidia.cu13", reason="needs NVIDIA's disassemblers")
    here = session(tmp_path)
    shutil.copy(CUBIN, tmp_path / "known.cubin")

    assert "disassembled a kernel" in doctor_card.disassembler_check(here, name, tmp_path).detail

    (tmp_path / "known.cubin").write_bytes(b"\x7fELF of tomorrow's card")
    assert doctor_card.disassembler_check(here, name, tmp_path).status is CheckStatus.FAIL


# The self-test ---------------------------------------------------------------------------------------------------------


def case(name: str) -> selftest.Case:
    return next(each for each in selftest.read_cases()[1] if each.name == name)


def test_every_case_of_the_selftest_has_its_file_and_compiles():
    target, cases = selftest.read_cases()
    folder = SRC / "hotkernel" / "selftest"

    for name in [f"{target}_baseline", *(each.name for each in cases)]:
        compile((folder / f"{name}.py.txt").read_text(encoding="utf-8"), name, "exec")
    assert {path.name.removesuffix(".py.txt") for path in folder.glob("*.py.txt")} == {
        f"{target}_baseline", *(each.name for each in cases)}, "no file without a case"


def test_no_cheat_may_be_called_faster_and_the_same_code_neither():
    for each in selftest.read_cases()[1]:
        judged = selftest.judged_case(each, "faster", "", 1.0)
        assert judged.status is (CaseStatus.PASSED if each.name == "straight" else CaseStatus.FAILED), each.name


def test_what_a_noisy_machine_does_not_see_is_no_lie():
    assert selftest.judged_case(case("straight"), "inconclusive", "", 1.0).status is CaseStatus.UNSEEN
    assert selftest.judged_case(case("straight"), "slower", "", 1.0).status is CaseStatus.FAILED
    assert selftest.judged_case(case("longer"), "faster", "", 1.0).status is CaseStatus.FAILED
    assert selftest.judged_case(case("lies"), None, "the verify ran out of its timeout", 1.0).status is CaseStatus.UNSEEN


@pytest.mark.slow
def test_the_selftest_catches_a_cheat_for_real_and_touches_no_state_of_the_users(tmp_path):
    pytest.importorskip("torch")
    here = session(tmp_path, HOTKERNEL_STATE_DIR=str(tmp_path / "state"))

    tested = selftest.run_selftest(here, only=("remembers",))
    here.nursery.close()

    assert tested.passed, tested
    assert tested.cases[0].verdict == "incorrect"
    assert not (tmp_path / "state").exists()


def test_a_verify_that_cannot_run_at_all_is_a_failure_with_its_fix(tmp_path):
    bare = executable(tmp_path / "bare-python", f'exec {sys.executable} -S "$@"')

    tested = selftest.run_selftest(session(tmp_path, HOTKERNEL_PYTHON=str(bare)), only=("skips",))

    assert not tested.passed
    assert tested.cases[0].status is CaseStatus.FAILED
    assert "HOTKERNEL_PYTHON" in tested.cases[0].detail


def test_a_session_of_the_users_is_left_as_it_was(tmp_path):
    here = Session(root=tmp_path, environment={"HOTKERNEL_PYTHON": "/nowhere"})

    selftest.run_selftest(here, only=("skips",))

    assert here.environment == {"HOTKERNEL_PYTHON": "/nowhere"}
    assert here.root == tmp_path
