"""Runs a user's script and reads the one JSON line it prints; believes no more of it than that, and judges nothing."""

from __future__ import annotations

import json
import math
import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.machine.process import Finished, Job

DETAIL_LIMIT = 2000
_ROOFLINE_NAMES = ("min_bytes", "bytes", "flops")
_HOW = 'print(json.dumps({"ms": milliseconds, "ok": is_right})) once, on a line of its own'


class ScriptFault(ToolError):
    """A script that ran and gave no time that can be used; `rule` names what was wrong."""

    def __init__(self, rule: str, message: str, *, fix: str, detail: str = "") -> None:
        super().__init__(message, fix=fix, detail=detail)
        self.rule = rule


@dataclass(frozen=True)
class Script:
    """How a script is run, the same every time."""

    argv: tuple[str, ...]
    name: str
    cwd: Path
    environment: Mapping[str, str]
    timeout_s: float


@dataclass(frozen=True)
class Line:
    """What one run printed."""

    ms: float
    ok: bool | None  # null where the script does not say
    values: dict[str, Any]  # the whole JSON object
    length: int  # of the line, in characters
    after: int = 0  # lines that the script printed below it

    def numbers(self) -> dict[str, float | None]:
        """The script's own bytes and flops, for the roofline."""
        inside = self.values.get("roofline_inputs")
        found = {**(inside if isinstance(inside, dict) else {}),
                 **{name: self.values[name] for name in _ROOFLINE_NAMES if name in self.values}}
        return {str(name)[:64]: _finite(value) for name, value in list(found.items())[:32]}


def script(python: Path, path: Path, args: Sequence[str], *, cwd: Path, environment: Mapping[str, str],
           timeout_s: float) -> Script:
    """A script to be run with `python` and `args` in `cwd`. Raises ToolError where that cannot be."""
    if not math.isfinite(timeout_s) or timeout_s <= 0:
        raise ToolError(f"timeout={timeout_s} is no time", fix="give seconds above 0")
    if not cwd.is_dir():
        raise ToolError(f"no such folder: {cwd}", fix="check cwd")
    return Script((str(python), str(path), *map(str, args)), path.name, cwd, environment, timeout_s)


def run(job: Job, what: Script, watch: Callable[[float], None] | None = None) -> Line:
    """Run the script once and return its line. Raises ScriptFault when it gives none that can be used.

    A line that says `"ok": false` is a result whatever the exit status: a target's plain line ends with status 1 then.
    """
    started = time.monotonic()
    try:
        finished = job.run(what.argv, timeout_s=what.timeout_s, cwd=what.cwd, env=what.environment, watch=watch)
    except ToolError as error:
        if time.monotonic() - started < what.timeout_s:
            raise  # it could not be started: nothing that the script did
        raise ScriptFault("timeout", f"{what.name} did not end within {what.timeout_s:g} s and was stopped",
                          fix="give a larger timeout, or find out what it waits for", detail=error.detail) from None
    if finished.returncode < 0:
        raise ScriptFault("killed_by_signal", f"{what.name} was killed by {_signal_name(-finished.returncode)}",
                          fix="run it alone and see where it dies", detail=finished.tail(DETAIL_LIMIT))
    line = _read(what, finished)
    if finished.returncode != 0 and line.ok is not False:
        raise _ended(what, finished, "after its JSON line")
    return line


def _read(what: Script, finished: Finished) -> Line:
    printed = [line.strip() for line in re.split(r"[\r\n]+", finished.stdout) if line.strip()]
    found = [(place, values) for place, text in enumerate(printed) if (values := _object(text)) and "ms" in values]
    if not found and finished.returncode != 0:
        raise _ended(what, finished, "and printed no JSON line")
    if not found:
        raise _no_line(what, finished, printed)
    if len(found) > 1:
        raise ScriptFault("two_lines", f'{what.name} printed {len(found)} lines with "ms", and one is expected',
                          fix="print one; a forked child repeats what is unflushed, and an import may print too",
                          detail="\n".join(printed[place][:300] for place, _ in found[:5]))
    place, values = found[0]
    raw = printed[place]
    return Line(_ms(what, values["ms"], raw), _ok(what, values.get("ok"), raw), values, len(raw),
                len(printed) - place - 1)


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that a line is; None where it is none."""
    if not text.startswith("{"):
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _ms(what: Script, value: Any, raw: str) -> float:
    number = _finite(value)
    if number is None:
        problem = f"{what.name} gives ms as {str(value)[:60]!s}, which is no finite number"
    elif number <= 0:
        problem = f"{what.name} gives ms as {number:g}; a time is above 0"
    elif number > what.timeout_s * 1000:
        problem = f"{what.name} gives ms as {number:g}, longer than the {what.timeout_s:g} s that a whole run may take"
    else:
        return number
    raise ScriptFault("bad_ms", problem, fix=_HOW, detail=raw[:DETAIL_LIMIT])


def _ok(what: Script, value: Any, raw: str) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    raise ScriptFault("bad_ok", f"{what.name} gives ok as {str(value)[:60]}, which is neither true nor false",
                      fix='print "ok": true or "ok": false', detail=raw[:DETAIL_LIMIT])


def _finite(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _no_line(what: Script, finished: Finished, printed: Sequence[str]) -> ScriptFault:
    meant = [text for text in printed if text.startswith("{")]
    if any('"ms"' in text for text in meant):
        return ScriptFault("bad_line", f"{what.name} printed a line that begins as JSON and is none",
                           fix=f"{_HOW}, with nothing behind it", detail=meant[-1][:DETAIL_LIMIT])
    return ScriptFault("no_line", f'{what.name} ended well and printed no JSON line with "ms"',
                       fix=_HOW, detail=finished.tail(DETAIL_LIMIT))


def _ended(what: Script, finished: Finished, when: str) -> ScriptFault:
    return ScriptFault("exit_status", f"{what.name} ended with status {finished.returncode} {when}",
                       fix="see what it says, and run it alone", detail=finished.tail(DETAIL_LIMIT))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
