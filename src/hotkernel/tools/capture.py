"""The tool capture: what dominates a user's own model, a target made of a row of it, a candidate tried in its place."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from hotkernel.errors import ToolError
from hotkernel.judge.amdahl import whole_speedup
from hotkernel.parameter import Bounds
from hotkernel.profilers import model_rows
from hotkernel.records import captures
from hotkernel.records.state import state_dir
from hotkernel.schema.capture import CaptureRow, CaptureRun
from hotkernel.session import Session
from hotkernel.tools import applying, captured_targets, saved_reports, user_scripts
from hotkernel.tools.user_scripts import Asked

NOTE = "a row's time contains what it calls: rows do not add up; modules are counted in the forward alone"


def capture(
    session: Session,
    script: Annotated[str, "the model's script"],
    step: Annotated[str, "its function that is one step (default: the whole script)"] = "",
    pick: Annotated[str, "row to make a target of: number or name"] = "",
    apply: Annotated[str, "such a target's candidate file, to try in the script"] = "",
    tensors: Annotated[bool, "pick: with real tensors"] = False,
    output: Annotated[str, "apply: variable to compare (default: what step returns)"] = "",
    rtol: Annotated[float | None, "apply: relative RMS error allowed"] = None,
    n: Annotated[int, "apply: runs of a side"] = 7,
    top: Annotated[int, "rows", Bounds(1, 200)] = 15,
    args: Annotated[list[str] | None, "of the script"] = None,
    out_dir: Annotated[str, "pick: target's folder"] = "",
    cwd: Annotated[str, "folder to run in"] = "",
    timeout: Annotated[float, "seconds for a run"] = 600,
) -> CaptureRun:
    """Rank a model's operators and modules by time, with shapes and Amdahl's limits; make a target of one (pick).

    After a win, apply swaps the candidate in: same outputs, step times, gain as predicted?
    """
    asked = Asked(session.file(script, cwd=cwd), tuple(args or ()), step, cwd, timeout)
    key, state = captured_targets.key_of(asked), state_dir(session.environment)
    if pick and apply:
        raise ToolError("pick and apply are two steps", fix="pick first, win, then apply")
    run = captures.load(state, key) if pick or apply else None
    if run is None and not apply:
        run = _captured(session, asked)
        captures.save(state, key, run)
    if apply:
        applied = applying.apply(session, asked, session.file(apply, cwd=cwd), output=output, rtol=rtol, n=n)
        run = run or CaptureRun(str(asked.script), (), 0, "unknown", 1, None, None)
        return replace(_cut(run, top if run.rows else 0), applied=applied)
    assert run is not None, "one was captured or loaded"
    if not pick:
        return _cut(run, top)
    row = captured_targets.row_of(run, pick)
    made = captured_targets.make_target(session, asked, run, row, out_dir=out_dir, keep=tensors)
    return replace(_cut(run, top), rows=(row,), target=made)


def _captured(session: Session, asked: Asked) -> CaptureRun:
    """One run of the script under torch.profiler, whole."""
    with tempfile.TemporaryDirectory(prefix="hotkernel-capture-") as folder:
        trace_file = Path(folder) / "trace.json"
        ran = user_scripts.run(session, asked, "capture", Path(folder) / "account.json", trace_file, asked.step,
                               what="torch.profiler")
        account = ran.answer
        found = saved_reports.read_trace(trace_file)
        ranked = model_rows.rank(saved_reports.events(trace_file), account["modules"])
    steps = account["step_ms"]
    return CaptureRun(
        script=str(asked.script), rows=tuple(_with_limits(row) for row in ranked.rows), n_rows=len(ranked.rows),
        device=ranked.device, steps=len(steps), step_ms=sum(steps) / len(steps), total_us=ranked.total_us,
        gpu_idle_pct=found.gpu_idle_pct, note=NOTE, cmd=ran.finished.argv, torch=account["torch"],
        warnings=(*found.warnings, *_warnings(asked, account, ranked)))


def _warnings(asked: Asked, account: dict[str, Any], ranked: model_rows.ModelRows) -> list[str]:
    said = []
    if not asked.step:
        said.append("the whole script is counted, its set-up too; give step, a function of it, for one step alone")
    if account["cuda_used"] and ranked.device == "cpu":
        said.append("the GPU was used, but the trace has no kernel: another profiler holds it; times are the CPU's")
    if not account["modules"]:
        said.append("no torch.nn.Module was called")
    return said


def _with_limits(row: CaptureRow) -> CaptureRow:
    """With what the whole would gain: by Amdahl, of the share that the row has."""
    if row.pct is None:
        return row
    share = row.pct / 100
    return replace(row, whole_if_2x=whole_speedup(share, 2), whole_at_most=whole_speedup(share, float("inf")))


def _cut(run: CaptureRun, count: int) -> CaptureRun:
    return replace(run, rows=run.rows[:count], truncated=len(run.rows) > count)
