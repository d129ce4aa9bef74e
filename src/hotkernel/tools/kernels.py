"""The tools that say which kernels take the time: torch_trace, profile, top_kernels; they join, others work it out."""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from hotkernel.errors import ToolError
from hotkernel.profilers import trace
from hotkernel.profilers.report import Findings
from hotkernel.schema.profile import KernelRow, ProfileRun, TopKernels, TraceRun
from hotkernel.session import Session
from hotkernel.tools import profiler_runs, saved_reports, user_scripts

ROWS_LIMIT = 200
ADVICE_BY_RANK = (3, 2, 2)  # pieces kept of the first rows' advice; the others keep one, as an answer has its bounds
PROFILE_ROWS = 10  # of ncu, with advice, some 16,000 characters; top_kernels(n=…) on the report gives more
PROCESSES_SHOWN = 20
NSYS_NOTE = "times are CUPTI's, of kernels as they ran; the gaps between launches are not in them"
NCU_NOTE = (
    "ncu runs each launch alone, replayed, with cold caches and free clocks: read its counters; verify has the times"
)
OPS_NOTE = "an operator's time contains the operators it calls: rows of ops do not add up, rows of kernels do"


def torch_trace(
    session: Session,
    script: Annotated[str, "run by the Python that has torch"],
    top: Annotated[int, "kernels and operators to return, 1 to 200"] = 15,
    args: Annotated[list[str] | None, "arguments of the script"] = None,
    cwd: Annotated[str, "folder to run in"] = "",
    timeout: Annotated[float, "seconds for the run"] = 600,
) -> TraceRun:
    """Run a script under torch.profiler; list its kernels by device time and, apart from them, its operators.

    Of a hotkernel target only its own calls are counted. With no GPU operators are ranked by CPU time.
    """
    file, count = session.file(script, cwd=cwd), _bounded(top, "top")
    target = profiler_runs.is_target(file)
    with tempfile.TemporaryDirectory(prefix="hotkernel-trace-") as folder:
        trace_file = Path(folder) / "trace.json"
        ran = user_scripts.run(session, user_scripts.Asked(file, tuple(args or ()), "", cwd, timeout), "torch_trace",
                               Path(folder) / "account.json", trace_file, what="torch.profiler", is_target=target)
        account = ran.answer
        found = saved_reports.read_trace(trace_file)
    return TraceRun(
        kernels=_cut(found.kernels, count), ops=found.ops[:count], n_kernels=len(found.kernels),
        n_launches=found.n_launches, total_kernel_time_us=found.kernel_time_us, scope=found.scope or trace.WHOLE_SCOPE,
        device="cuda" if found.kernels else "cpu", gpu_idle_pct=found.gpu_idle_pct, copies=found.copies[:count],
        devices=found.devices, cmd=list(ran.finished.argv), wall_s=ran.finished.wall_s,
        script_exit_code=account["script_exit_code"], torch=account["torch"], ops_note=OPS_NOTE,
        reason=_no_kernel_reason(found, account), n_ops=len(found.ops),
        truncated=max(len(found.kernels), len(found.ops)) > count,
        waited_for_gpu_s=ran.waited_for_gpu_s, warnings=(*found.warnings, *_trace_warnings(account, target, found)),
    )


def profile(
    session: Session,
    cmd: Annotated[list[str], "a list, no shell; `python` is the one that has torch"],
    tool: Annotated[Literal["nsys", "ncu"], "nsys: which kernels, how long; ncu: why, by counters"] = "nsys",
    out_dir: Annotated[str, "folder for the report"] = "results/profiles",
    cwd: Annotated[str, "folder to run in"] = "",
    timeout: Annotated[float, "seconds for the run"] = 600,
    ncu_kernel_regex: Annotated[str, "ncu: kernels whose name matches"] = "",
    ncu_launch_count: Annotated[int, "ncu: at most so many launches"] = 20,
    ncu_launch_skip: Annotated[int, "ncu: launches to pass over"] = 0,
    ncu_set: Annotated[str, "ncu: basic, detailed or full; empty: basic with DRAM bytes and spills"] = "",
) -> ProfileRun:
    """Run a command under Nsight Systems or Nsight Compute; return the report's path and its heaviest kernels.

    Of a hotkernel target only its own calls are captured.
    """
    filters = profiler_runs.Filters(ncu_kernel_regex, ncu_launch_count, ncu_launch_skip, ncu_set)
    ran = profiler_runs.profile(session, tool, cmd, cwd, out_dir, timeout, filters)
    found, finished = ran.found, ran.finished
    return ProfileRun(
        tool=tool, report=str(ran.report), top=_cut(found.kernels, PROFILE_ROWS), n_kernels_total=len(found.kernels),
        n_launches=found.n_launches, total_gpu_time_ns=_nanoseconds(found),
        scope=trace.TARGET_SCOPE if ran.is_target else "the whole command", cmd=list(finished.argv),
        program=str(ran.program), program_version=ran.version, profile_wall_s=finished.wall_s,
        script_exit_code=finished.returncode, note=NSYS_NOTE if tool == "nsys" else NCU_NOTE,
        sqlite=str(ran.database) if ran.database else None, reason=found.reason, gpu_idle_pct=found.gpu_idle_pct,
        copies=found.copies[:PROFILE_ROWS], devices=found.devices, processes=found.processes[:PROCESSES_SHOWN],
        truncated=len(found.kernels) > PROFILE_ROWS or len(found.processes) > PROCESSES_SHOWN,
        waited_for_gpu_s=ran.waited_for_gpu_s,
        warnings=(*found.warnings, *profiler_runs.warnings(session, tool, finished)),
    )


def top_kernels(
    session: Session,
    report: Annotated[str, ".sqlite, .nsys-rep, .ncu-rep, CSV or text of nsys or ncu, trace .json or .json.gz"],
    n: Annotated[int, "rows to return, 1 to 200"] = 10,
    tool: Annotated[Literal["", "nsys", "ncu", "torch"], "what wrote it; empty: read off the file"] = "",
) -> TopKernels:
    """List the heaviest kernels of a saved report, whatever program wrote it; the file itself says which.

    An ncu report has a row a launch: counters, ncu's advice, what binds it.
    """
    file, count = session.file(report), _bounded(n, "n")
    found = saved_reports.read(session, file)
    if tool and tool != found.tool:
        found = found.noting(f"tool={tool!r} was given, but {found.tool} wrote this file")
    return TopKernels(
        tool=found.tool, form=found.form, report=str(file), kernels=_cut(found.kernels, count),
        n_kernels_total=len(found.kernels), n_launches=found.n_launches, total_gpu_time_ns=_nanoseconds(found),
        reason=found.reason, gpu_idle_pct=found.gpu_idle_pct, copies=found.copies[:count], devices=found.devices,
        processes=found.processes[:PROCESSES_SHOWN],
        truncated=len(found.kernels) > count or len(found.processes) > PROCESSES_SHOWN, warnings=found.warnings,
    )


def _bounded(count: int, name: str) -> int:
    if not 1 <= count <= ROWS_LIMIT:
        raise ToolError(f"{name}={count} is out of bounds", fix=f"give 1 to {ROWS_LIMIT}")
    return count


def _no_kernel_reason(found: Findings, account: dict[str, Any]) -> str | None:
    if found.kernels:
        return None
    if not account["cuda"]:
        return "this torch has no CUDA, or sees no card: operators are ranked by CPU time"
    if not account["cuda_used"]:
        return "the script did not use the GPU: operators are ranked by CPU time"
    return found.reason


def _trace_warnings(account: dict[str, Any], target: bool, found: Findings) -> list[str]:
    said = []
    if account["script_exit_code"]:
        said.append(f"the script ended with exit status {account['script_exit_code']}")
    if target and found.scope != trace.TARGET_SCOPE:
        said.append("the target did not mark its own calls: the whole script is counted, set-up and check included")
    return said


def _cut(rows: Sequence[KernelRow], count: int) -> tuple[KernelRow, ...]:
    """The first rows, each with as much advice as its rank is worth."""
    return tuple(
        dataclasses.replace(row, advice=row.advice[: ADVICE_BY_RANK[rank] if rank < len(ADVICE_BY_RANK) else 1])
        for rank, row in enumerate(rows[:count])
    )


def _nanoseconds(found: Findings) -> float | None:
    time_us = found.kernel_time_us
    return None if time_us is None else round(time_us * 1000, 3)
