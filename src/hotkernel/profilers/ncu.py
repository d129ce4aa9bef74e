"""Nsight Compute: how to ask it, and why it profiled nothing; runs and reads nothing."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hotkernel.errors import ToolError
from hotkernel.profilers import kernel_names

DETAIL_LIMIT = 2000
SUGGESTED_NAMES = 12
SETS_WITH_SOURCE = ("detailed", "full")  # those with counters of single instructions

# NVIDIA: https://developer.nvidia.com/ERR_NVGPUCTRPERM (read 2026-11-30)
PERMISSION_FIX = (
    "Linux: write `options nvidia NVreg_RestrictProfilingToAdminUsers=0` to /etc/modprobe.d/nvidia-profiling.conf, "
    "rebuild the initramfs (`update-initramfs -u` or `dracut -f`), reboot, and see `RmProfilingAdminOnly: 0` in "
    "/proc/driver/nvidia/params; or run ncu as root. "
    "Windows: NVIDIA Control Panel as administrator, Desktop > Enable Developer Settings, then Developer > Manage GPU "
    "Performance Counters > Allow access to all users. "
    "WSL2: the same in the Windows host's control panel, then `wsl --shutdown`. "
    "Container: start it with --cap-add=SYS_ADMIN, or make the Linux change on the host; in a rented container only "
    "the provider can. "
    "Still works without counters: torch_trace, profile(tool='nsys'), disasm (registers, spills, instruction mix), "
    "bench and verify"
)
REPLAY_HINT = (
    "ncu replays each kernel many times: lower ncu_launch_count, give ncu_kernel_regex, or a larger timeout. A kernel "
    "that waits for another process (NCCL) never ends under it: leave it out by the regex, or use torch_trace or nsys"
)


def command(
    ncu: str,
    argv: Sequence[str],
    output: str,
    *,
    kernel_regex: str,
    launch_count: int,
    launch_skip: int,
    metric_set: str,
    only_capture_range: bool,
) -> list[str]:
    """The command that profiles `argv` to `output`.ncu-rep.

    Clocks are left alone always: ncu's base clock would show another machine than the one that is timed.
    """
    asked = [ncu, "--clock-control", "none", "--force-overwrite", "--export", output, "--target-processes", "all"]
    if metric_set:
        asked += ["--set", metric_set]
        if metric_set in SETS_WITH_SOURCE:
            asked += ["--import-source", "yes"]  # explain shows the lines' text on a machine that lacks the files
    else:
        # `basic` lacks DRAM bytes and spills; the section adds a few passes.
        asked += ["--set", "basic", "--section", "MemoryWorkloadAnalysis"]
    if kernel_regex:
        asked += ["--kernel-name", f"regex:{kernel_regex}"]
    if launch_skip:
        asked += ["--launch-skip", str(launch_skip)]
    if launch_count:
        asked += ["--launch-count", str(launch_count)]
    if only_capture_range:
        asked += ["--profile-from-start", "off"]
    return [*asked, *argv]


def import_command(ncu: str, report: str) -> list[str]:
    """The command that prints a report as the details page in base units."""
    return [ncu, "--import", report, "--page", "details", "--csv", "--print-units", "base"]


def failure(said: str, *, kernel_regex: str = "", only_capture_range: bool = False) -> ToolError | None:
    """Why ncu profiled nothing, from what it said; None where it names no cause.

    The cause is looked for before the consequence: `No kernels were profiled` follows nearly every other error.
    """
    detail = words(said)
    if "ERR_NVGPUCTRPERM" in said or "does not have permission to access NVIDIA GPU Performance Counters" in said:
        return ToolError("the driver denies GPU performance counters (ERR_NVGPUCTRPERM)", fix=PERMISSION_FIX,
                         detail=detail)
    if "not compatible with Nsight Compute" in said:
        return ToolError("the driver and this Nsight Compute do not fit each other; no launch was profiled",
                         fix="install the Nsight Compute of the driver's CUDA version (nvidia-smi shows it), or use "
                         "torch_trace or nsys", detail=detail)
    if re.search(r"not supported on .*(?:device|GPU)|device is not supported|Profiling is not supported", said, re.I):
        return ToolError("this Nsight Compute does not support this card; no launch was profiled",
                         fix="use a version that does (before Volta: 2019), or nsys", detail=detail)
    if "another tool is using" in said.lower() or "LibraryNotFound" in said or "ERR_NVGPUCTR" in said:
        return ToolError("ncu could not take the card's counters", detail=detail,
                         fix="end other profilers (DCGM: `dcgmi profile --pause`), then try again")
    if re.search(r"unrecogni[sz]ed option|unknown option|invalid option|Failed to find (?:set|section)", said, re.I):
        return ToolError("this ncu does not know an option or a set it was given", detail=detail,
                         fix="see `ncu --list-sets` for ncu_set, or install a newer Nsight Compute")
    if "No kernels were profiled" in said or "no kernels were profiled" in said:
        return _nothing_matched(said, kernel_regex, only_capture_range, detail)
    return None


def no_report(said: str, exit_code: int, *, kernel_regex: str, only_capture_range: bool) -> ToolError:
    """Why ncu left no report; an exit status of 0 with nothing profiled is a failure too."""
    known = failure(said, kernel_regex=kernel_regex, only_capture_range=only_capture_range)
    if known:
        return known
    if exit_code == 0:
        return _nothing_matched(said, kernel_regex, only_capture_range, words(said))
    return ToolError(f"ncu ended with exit status {exit_code} and no report",
                     fix="run the command without ncu first; then see the detail", detail=words(said))


def warnings(said: str) -> list[str]:
    """What ncu warns of, but for the note that clocks are free, which is asked for."""
    found = re.findall(r"^==WARNING==\s*(.*)$", said, re.M)
    return [note for note in found if "unmodified GPU clocks" not in note][:3]


def words(said: str) -> str:
    """ncu's own lines of a mixed output, else its end; safe to show."""
    own = [line for line in said.splitlines() if re.match(r"\s*==(?:ERROR|WARNING)==", line)]
    text = "\n".join(own) if own else said.strip()
    return "\n".join(kernel_names.clean(line) for line in text[-DETAIL_LIMIT:].splitlines())


def _nothing_matched(said: str, kernel_regex: str, only_capture_range: bool, detail: str) -> ToolError:
    names = available_kernels(said)
    if names:
        return ToolError("no launch matched the filter; no kernel was profiled", detail=detail,
                         fix="kernels that the command did launch: " + "; ".join(names))
    if re.search(r"--nvtx|NVTX", said):
        return ToolError("the NVTX filter matched nothing; no kernel was profiled", detail=detail,
                         fix="only push/pop ranges match by default; check the range's name")
    if kernel_regex:
        return ToolError(f"no kernel's name matched {kernel_names.cut(kernel_regex)!r}", detail=detail,
                         fix="the regex is matched against the function's name without template arguments; "
                         "torch_trace lists the names")
    if only_capture_range:
        return ToolError("ncu saw no kernel within the target's own calls", detail=detail,
                         fix="run the target with plain python and see that it ends well on the card")
    return ToolError("no kernel was profiled: the command launched none that ncu could see", detail=detail,
                     fix="check with torch_trace that it uses the GPU at all")


def available_kernels(said: str) -> list[str]:
    """The names that ncu lists after a filter that matched nothing: `Available Kernels:` and numbered lines."""
    _, found, after = said.partition("Available Kernels:")
    names = re.findall(r"^[=\w\s]*?\b\d+\.\s+(\S.*?)\s*$", after, re.M) if found else []
    if found and not names:
        names = re.findall(r"\d+\.\s+(.+?)(?=\s+\d+\.\s|$)", after.splitlines()[0] if after else "")
    return [kernel_names.short(name) for name in names[:SUGGESTED_NAMES]]
