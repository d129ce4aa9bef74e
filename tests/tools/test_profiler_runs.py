"""profile: how nsys and ncu are called, what is captured of a target, and each way that a run can fail."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import pytest
from stand_ins import BASELINE, REPORTS, called, session, stand_in, write

from hotkernel.errors import ToolError
from hotkernel.machine import programs
from hotkernel.tools import kernels, profiler_runs


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("from hotkernel_contract import Target\n", True),
        ("import hotkernel_contract as c\n", True),
        ("def f():\n    import hotkernel_contract\n", True),
        ("from twice_baseline import TARGET\n", True),
        ("import twice_baseline\n", True),
        ("from other_baseline import x\n", False),
        ("# import hotkernel_contract\n", False),
        ("import torch\n", False),
        ("import hotkernel_contractual\n", False),
    ],
)
def test_a_target_is_known_by_its_imports(tmp_path, text, known):
    write(tmp_path / "twice_baseline.py", BASELINE)
    write(tmp_path / "other_baseline.py", "x = 1\n")

    assert profiler_runs.is_target(write(tmp_path / "candidate.py", text)) is known


def test_without_nsys_the_error_says_what_to_do(tmp_path):
    here = session(tmp_path, PATH="")
    with contextlib.suppress(ToolError):
        pytest.skip(f"this machine has {programs.find('nsys', here.environment)}")
    write(tmp_path / "script.py", "")

    with pytest.raises(ToolError, match="nsys is not on this machine") as refused:
        kernels.profile(here, ["python", "script.py"])

    assert "torch_trace" in refused.value.fix


DENIED = """echo "==PROF== Connected to process 1"
echo "==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters."
echo "==WARNING== No kernels were profiled."; exit {code}"""


@pytest.mark.parametrize("code", [0, 1])
def test_denied_counters_are_the_error_whatever_the_exit_status(tmp_path, code):
    with pytest.raises(ToolError, match="ERR_NVGPUCTRPERM") as refused:
        kernels.profile(stand_in(tmp_path, "ncu", DENIED.format(code=code)), ["python", "script.py"], tool="ncu")

    assert "NVreg_RestrictProfilingToAdminUsers=0" in refused.value.fix
    assert "ERR_NVGPUCTRPERM" in refused.value.detail


def test_ncu_that_profiles_nothing_and_succeeds_is_a_failure(tmp_path):
    with pytest.raises(ToolError, match="no kernel was profiled"):
        kernels.profile(stand_in(tmp_path, "ncu", "exit 0"), ["python", "script.py"], tool="ncu")


def test_a_filter_that_matched_nothing_offers_the_kernels_that_ran(tmp_path):
    body = 'echo "==WARNING== No kernels were profiled."; printf "Available Kernels:\\n1. vector_add(float)\\n"'

    with pytest.raises(ToolError, match="no launch matched") as refused:
        kernels.profile(stand_in(tmp_path, "ncu", body), ["python", "script.py"], tool="ncu", ncu_kernel_regex="zz")

    assert "vector_add" in refused.value.fix


def test_ncu_that_hangs_is_ended_and_the_error_names_replay(tmp_path):
    with pytest.raises(ToolError, match="did not end within") as refused:
        kernels.profile(
            stand_in(tmp_path, "ncu", "exec tail -f /dev/null"), ["python", "script.py"], tool="ncu", timeout=0.5
        )

    assert "NCCL" in refused.value.fix


def test_nsys_that_leaves_a_raw_stream_names_the_missing_library(tmp_path):
    with pytest.raises(ToolError, match="no report") as refused:
        kernels.profile(stand_in(tmp_path, "nsys", 'echo x > "$out.qdstrm"; exit 1'), ["python", "script.py"])

    assert "libdw1" in refused.value.fix
    assert ".qdstrm" in refused.value.message


def test_nsys_that_captures_nothing_of_a_target_says_so(tmp_path):
    here = stand_in(tmp_path, "nsys", "exit 0")
    write(tmp_path / "script.py", "import hotkernel_contract\n")

    with pytest.raises(ToolError, match="captured nothing"):
        kernels.profile(here, ["python", "script.py"])

    assert {"--capture-range=cudaProfilerApi", "--capture-range-end=stop", "capture=1"} <= set(called(tmp_path))


def test_a_command_that_is_no_target_is_captured_whole_and_python_is_the_users(tmp_path):
    here = stand_in(tmp_path, "ncu", "exit 3")

    with pytest.raises(ToolError, match="exit status 3"):
        kernels.profile(here, ["python", "script.py", "--fast"], tool="ncu", ncu_launch_skip=4)

    words = called(tmp_path)
    assert words[words.index("--clock-control") + 1] == "none"
    assert words[words.index("--launch-skip") + 1] == "4"
    assert words[-4:] == [sys.executable, "script.py", "--fast", "capture="]
    assert "--profile-from-start" not in words


def test_a_report_is_kept_read_and_ranked(tmp_path):
    """The stand-in replays a recorded run: this is the recipe's test, not nsys's."""
    body = f'case "$1" in profile) echo x > "$out.nsys-rep";; export) cp "{REPORTS}/nt.sqlite" "$out";; esac; exit 0'

    ran = kernels.profile(stand_in(tmp_path, "nsys", body), ["python", "script.py"], out_dir="out")

    assert ran.top[0].short_name == "cunn_SoftMaxForwardReg"
    assert (ran.n_kernels_total, ran.n_launches, ran.total_gpu_time_ns) == (6, 22, 744189)
    assert Path(ran.report).parent == tmp_path / "out"
    assert Path(ran.sqlite).is_file()
    assert ran.cmd[1] == "profile"
    again = kernels.profile(stand_in(tmp_path, "nsys", body), ["python", "script.py"], out_dir="out")
    assert again.report != ran.report


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"cmd": []}, "no program"),
        ({"cmd": ["--version"]}, "no program"),
        ({"cmd": "python x.py"}, "is a list"),
        ({"cmd": ["python", "script.py"], "ncu_kernel_regex": "("}, "cannot be read"),
        ({"cmd": ["python", "script.py"], "ncu_set": "--x"}, "no set's name"),
        ({"cmd": ["python", "script.py"], "ncu_launch_skip": -1}, "count launches"),
    ],
)
def test_arguments_that_make_no_sense_run_nothing(tmp_path, arguments, message):
    here = stand_in(tmp_path, "ncu", "exit 0")

    with pytest.raises(ToolError, match=message):
        kernels.profile(here, tool="ncu", **arguments)

    assert not (tmp_path / "called").exists()
