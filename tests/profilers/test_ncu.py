"""How ncu is asked, and why it profiles nothing: the cause is named, not its consequence."""

import pytest

from hotkernel.profilers import ncu


def test_a_command_never_locks_clocks_and_begins_at_the_targets_own_calls():
    asked = ncu.command(
        "ncu",
        ["python", "x.py"],
        "out",
        kernel_regex="rms.*",
        launch_count=5,
        launch_skip=2,
        metric_set="full",
        only_capture_range=True,
    )

    assert asked[-2:] == ["python", "x.py"]
    assert " ".join(asked[1:3]) == "--clock-control none"
    assert "--profile-from-start off" in " ".join(asked)
    assert "--kernel-name regex:rms.*" in " ".join(asked)
    assert "--set full --import-source yes" in " ".join(asked)


DENIED = (
    "==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access "
    "NVIDIA GPU Performance Counters on the target device 0.\n==WARNING== No kernels were profiled.\n"
)


def test_denied_counters_give_the_fix_for_every_kind_of_machine_and_what_still_works():
    error = ncu.failure(DENIED)

    assert "ERR_NVGPUCTRPERM" in error.message
    for words in (
        "NVreg_RestrictProfilingToAdminUsers=0",
        "NVIDIA Control Panel",
        "wsl --shutdown",
        "--cap-add=SYS_ADMIN",
        "torch_trace",
        "tool='nsys'",
    ):
        assert words in error.fix


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("==ERROR== Cuda driver is not compatible with Nsight Compute.", "do not fit each other"),
        (
            "==ERROR== Profiling is not supported on this device\n==WARNING== No kernels were profiled.",
            "does not support this card",
        ),
        ("==ERROR== Option '--set': Failed to find set 'x'", "does not know an option"),
        ("==WARNING== No kernels were profiled.\nTry --nvtx-include", "NVTX filter"),
        ("==WARNING== No kernels were profiled.", "launched none"),
    ],
)
def test_the_cause_is_named_and_not_its_consequence(said, message):
    assert message in ncu.failure(said).message


def test_kernels_that_a_filter_missed_are_offered():
    said = "==WARNING== No kernels were profiled.\nAvailable Kernels:\n1. vector_add(float, int)\n2. void f<a, b>(c)\n"

    assert ncu.failure(said, kernel_regex="zz").fix.endswith("vector_add; f")


def test_success_with_nothing_profiled_is_a_failure():
    assert "no kernel was profiled" in ncu.no_report("", 0, kernel_regex="", only_capture_range=False).message
