"""The terminal's door: `hotkernel <tool>` is the same tool that an agent calls; translates, decides nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from hotkernel import __version__, arguments, tools
from hotkernel.errors import ToolError
from hotkernel.machine.process import Cancelled
from hotkernel.machine.supervised_job import SupervisedJob
from hotkernel.session import Session
from hotkernel.tool import ArgumentError, Listed, Tool, unknown

USAGE = 2
STOPPED = 130
EXIT_OF_VERDICT = {"faster": 0, "inconclusive": 10, "slower": 11, "incorrect": 12, "invalid": 13}
SHORTER = {"new": "new_target"}

_HEAD = f"""hotkernel {__version__}: profilers, a roofline, a judge and a memory for making GPU kernels faster

usage: hotkernel                    serve MCP over stdio (what a client's config runs)
       hotkernel TOOL [arguments]   run one tool here; hotkernel TOOL --help says more
       hotkernel install            how to add hotkernel to Claude Code, Codex, Gemini, Cursor and others
       hotkernel --version

tools:
"""
_TAIL = """
exit status: 0 done; for verify 0 faster, 10 inconclusive, 11 slower, 12 incorrect, 13 invalid;
             1 the tool could not do it (the message says what to do), 2 wrong usage, 130 interrupted
"""


def main(argv: Sequence[str] | None = None, listed: Sequence[Listed] | None = None) -> int:
    """Run what was typed and return the exit status."""
    typed = list(sys.argv[1:] if argv is None else argv)
    listed = tools.LISTED if listed is None else listed
    try:
        return _dispatch(typed, listed)
    except ArgumentError as error:
        return _complain(error, USAGE)
    except ToolError as error:
        return _complain(error, 1)
    except (_Stopped, Cancelled, KeyboardInterrupt) as stopped:
        print("\nstopped; nothing is left running", file=sys.stderr)
        return stopped.status if isinstance(stopped, _Stopped) else STOPPED
    except BrokenPipeError:  # the reader, `head` say, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0


def overview(listed: Sequence[Listed]) -> str:
    """What `hotkernel --help` prints; imports no tool."""
    names = {each.name: each.title for each in listed}
    for short, name in SHORTER.items():
        if name in names:
            names[short] = f"= {name}"
    width = max(map(len, names), default=0)
    return _HEAD + "".join(f"  {name:<{width}}  {title}\n" for name, title in sorted(names.items())) + _TAIL


def _dispatch(typed: list[str], listed: Sequence[Listed]) -> int:
    if not typed:
        return _serve()
    name, rest = typed[0], typed[1:]
    if name in ("-h", "--help", "help"):
        sys.stdout.write(overview(listed))
    elif name in ("-V", "--version"):
        print(f"hotkernel {__version__}")
    elif name == "install":
        from hotkernel import install

        return install.main(rest)
    else:
        return _run(name, rest, listed)
    return 0


class _Stopped(BaseException):
    """A signal asked this process to end."""

    def __init__(self, number: int) -> None:
        self.status = 128 + number


def _run(name: str, rest: list[str], listed: Sequence[Listed]) -> int:
    tool = _find(name, listed)
    line = arguments.parse(tool, rest, program=f"hotkernel {name}")
    with _Progress() as progress, _stoppable() as job:
        result = tool.function(Session(progress=progress.say, job=job), **line.arguments)
    from hotkernel.schema.plain import to_plain

    plain = to_plain(result)
    if line.as_json:
        print(json.dumps(plain, indent=2))
    else:
        from hotkernel import render

        render.show(plain)
    sys.stdout.flush()
    return _status(tool, plain)


def _find(name: str, listed: Sequence[Listed]) -> Tool:
    wanted = SHORTER.get(name, name.replace("-", "_"))
    names = [each.name for each in listed]
    if wanted not in names:
        raise unknown(f"hotkernel has no command {name[:80]!r}", wanted, [*names, *SHORTER, "install"])
    return tools.find(wanted, listed)


def _status(tool: Tool, plain: dict[str, Any]) -> int:
    return EXIT_OF_VERDICT.get(str(plain.get("verdict")), 0) if tool.name == "verify" else 0


@contextlib.contextmanager
def _stoppable() -> Iterator[SupervisedJob]:
    """A job that a signal ends: its processes are gone before this process is."""
    job = SupervisedJob()

    def stop(number: int, _frame: FrameType | None) -> None:
        job.cancel()
        raise _Stopped(number)

    numbers = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield job
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        job.end_all()


class _Progress:
    """Says how far a tool is: one changing line on a terminal, plain lines elsewhere, on standard error either way."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()
        self._last = ""

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_terminal and self._last:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def say(self, message: str, done: int | None = None, total: int | None = None) -> None:
        from hotkernel.render import clean

        count = f" {done}/{total}" if done is not None and total is not None else ""
        line = f"{clean(message, 200)}{count}"
        if line == self._last:
            return
        self._last = line
        sys.stderr.write(f"\r\x1b[K{line}" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()


def _complain(error: ToolError, status: int) -> int:
    from hotkernel.render import clean

    print(f"error: {clean(error.message, 2000)}", file=sys.stderr)
    print(f"  fix: {clean(error.fix, 2000)}", file=sys.stderr)
    if error.detail:
        print(clean(error.detail, 4000, lines=True), file=sys.stderr)
    return status


def _serve() -> int:
    if sys.stdin.isatty():
        print("hotkernel: serving MCP on standard input; `hotkernel --help` lists the tools for a terminal",
              file=sys.stderr)
    from hotkernel import mcp_server

    return mcp_server.main()


if __name__ == "__main__":
    sys.exit(main())
