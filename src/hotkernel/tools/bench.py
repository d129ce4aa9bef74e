"""The tool bench: runs any script n times and says how long it says it took; compares nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from hotkernel.errors import ToolError
from hotkernel.harness import scripts
from hotkernel.judge import samples
from hotkernel.schema.bench import BenchResult
from hotkernel.session import Session
from hotkernel.tools.card_lock import card_held

MAX_RUNS = 1000
SHOWN_CHARACTERS = 20_000  # of printed lines in one answer; the times are all there anyway
LINE_CHARACTERS = 2000  # of one printed line


def bench(
    session: Session,
    script: Annotated[str, 'prints one JSON line with {"ms": …}, optionally "ok"'],
    n: Annotated[int, "runs that count"] = 5,
    args: Annotated[list[str] | None, "arguments for the script"] = None,
    cwd: Annotated[str, "folder to run in"] = "",
    timeout: Annotated[float, "seconds for a run"] = 600,
    warmup: Annotated[int, "runs before those"] = 1,
) -> BenchResult:
    """Run a script n times and summarise the ms that it prints.

    The times are its own: of two, verify says which is faster.
    """
    check_counts(n, warmup)
    path = session.file(script, cwd=cwd or None)
    what = scripts.script(session.python(), path, args or (), cwd=session.path(cwd) if cwd else session.root,
                          environment=session.environment, timeout_s=timeout)
    lines = []
    with card_held(session) as waited_s:
        for number in range(warmup + n):
            message = f"run {number - warmup + 1} of {n}" if number >= warmup else f"warm-up {number + 1} of {warmup}"
            session.progress(message, number, warmup + n)
            lines.append(scripts.run(session.job, what, watch=keep_telling(session, message, number, warmup + n)))
    return _result(what, warmup, lines[warmup:], waited_s)


def check_counts(n: int, warmup: int) -> None:
    """Raise ToolError for counts of runs that make no sense."""
    if not 1 <= n <= MAX_RUNS:
        raise ToolError(f"n={n} runs", fix=f"give 1 to {MAX_RUNS}")
    if not 0 <= warmup <= MAX_RUNS:
        raise ToolError(f"warmup={warmup} runs", fix=f"give 0 to {MAX_RUNS}")


def keep_telling(session: Session, message: str, done: int, total: int) -> Callable[[float], None]:
    """What a long run calls every second, so that a client sees it alive."""
    def tell(seconds: float) -> None:
        session.progress(f"{message}, {seconds:.0f} s", done, total)

    return tell


def _result(what: scripts.Script, warmup: int, lines: list[scripts.Line], waited_s: float) -> BenchResult:
    times = samples.measure([line.ms for line in lines])
    assert times is not None, "there is at least one run"
    oks = {line.ok for line in lines}
    shown = _shown(lines)
    dtype = lines[-1].values.get("dtype")
    return BenchResult(
        cmd=what.argv,
        n=times.n,
        warmup=warmup,
        mean_ms=times.mean_ms,
        std_ms=times.std_ms,
        min_ms=times.min_ms,
        max_ms=times.max_ms,
        median_ms=times.median_ms,
        all_ok=False if False in oks else True if oks == {True} else None,
        samples=shown,
        samples_ms=times.samples,
        roofline_inputs=lines[-1].numbers(),
        dtype=dtype[:64] if isinstance(dtype, str) else None,
        waited_for_gpu_s=waited_s,
        warnings=_warnings(lines),
        truncated=len(shown) < len(lines) or any(line.length > LINE_CHARACTERS for line in lines),
    )


def _shown(lines: list[scripts.Line]) -> tuple[dict[str, Any], ...]:
    """As many lines as an answer can hold."""
    room, shown = SHOWN_CHARACTERS, []
    for line in lines:
        is_long = line.length > LINE_CHARACTERS
        room -= 50 if is_long else line.length
        if room < 0:
            break
        shown.append({"ms": line.ms, "ok": line.ok} if is_long else line.values)
    return tuple(shown)


def _warnings(lines: list[scripts.Line]) -> tuple[str, ...]:
    found = []
    wrong = sum(line.ok is False for line in lines)
    if wrong:
        why = next((str(line.values["why"])[:200] for line in lines if line.ok is False and "why" in line.values), "")
        found.append(f"{wrong} of {len(lines)} runs say ok: false" + (f" ({why})" if why else ""))
    if any(line.after for line in lines):
        found.append("the script prints more after its JSON line; that was ignored")
    return tuple(found)
