"""The terminal's door: `hotkernel <tool>` is the same tool that an agent calls; translates, decides nothing."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from types import FrameType

from hotkernel import __version__, arguments, tools
from hotkernel.errors import ToolError
from hotkernel.exit_status import CANNOT, STOPPED, TEXT, USAGE, status_of
from hotkernel.machine.process import Cancelled
from hotkernel.machine.supervised_job import SupervisedJob
from hotkernel.session import Session
from hotkernel.tool import ArgumentError, Listed, Tool, unknown

SHORTER = {"new": "new_target", "diff": "show"}
PLACES = {"diff": ("against", "run")}  # `hotkernel diff OLD NEW`, as people know it

_HEAD = f"""hotkernel {__version__}: profilers, a roofline, a judge and a memory for making GPU kernels faster

usage: hotkernel                    serve MCP over stdio (what a client's config runs)
       hotkernel TOOL [arguments]   run one tool here; hotkernel TOOL --help says more
       hotkernel install            how to add hotkernel to Claude Code, Codex, Gemini, Cursor and others
       hotkernel completion SHELL   a script with which bash, zsh or fish completes all this
       hotkernel --version

tools:
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
        return _complain(error, CANNOT)
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
    return _HEAD + "".join(f"  {name:<{width}}  {title}\n" for name, title in sorted(names.items())) + f"\n{TEXT}"


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
    elif name == "completion":
        from hotkernel import completion

        sys.stdout.write(completion.main(rest, _commands(listed), SHORTER, listed))
    else:
        return _run(name, rest, listed)
    return 0


class _Stopped(BaseException):
    """A signal asked this process to end."""

    def __init__(self, number: int) -> None:
        self.status = 128 + number


def _run(name: str, rest: list[str], listed: Sequence[Listed]) -> int:
    tool = _find(name, listed)
    line = arguments.parse(tool, rest, program=f"hotkernel {name}", places=PLACES.get(name, ()))
    from hotkernel.progress import Progress

    with Progress(tool.name) as progress, _stoppable() as job:
        result = tool.function(Session(progress=progress.say, job=job), **line.arguments)
    from hotkernel.schema.plain import to_plain

    plain = to_plain(result)
    if line.as_json:
        print(json.dumps(plain, indent=2))
    else:
        from hotkernel import render

        render.show(plain)
    sys.stdout.flush()
    status, said = status_of(tool.name, plain, line.require)
    if said:
        print(said, file=sys.stderr)
    return status


def _commands(listed: Sequence[Listed]) -> list[tuple[str, str]]:
    """Every word that may follow `hotkernel`, and what it means."""
    own = {"install": "how to add hotkernel to a client", "completion": "a script for the shell", "help": "", "--version": ""}
    titles = {each.name: each.title for each in listed}
    short = {word: titles[name] for word, name in SHORTER.items() if name in titles}
    return sorted({**titles, **short, **own}.items())


def _find(name: str, listed: Sequence[Listed]) -> Tool:
    wanted = SHORTER.get(name, name.replace("-", "_"))
    names = [each.name for each in listed]
    if wanted not in names:
        raise unknown(f"hotkernel has no command {name[:80]!r}", wanted, [*names, *SHORTER, "install", "completion"])
    return tools.find(wanted, listed)


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


def _complain(error: ToolError, status: int) -> int:
    from hotkernel.render import clean

    if error.detail:
        print(clean(error.detail, 4000, lines=True), file=sys.stderr)
    print(f"error: {clean(error.message, 2000)}", file=sys.stderr)
    print(f"  fix: {clean(error.fix, 2000)}", file=sys.stderr)
    return status


def _serve() -> int:
    if sys.stdin.isatty():
        print("hotkernel: serving MCP on standard input; `hotkernel --help` lists the tools for a terminal",
              file=sys.stderr)
    if os.name == "posix":  # until the server takes signals itself: an import may swallow a KeyboardInterrupt, or fail of it
        signal.signal(signal.SIGINT, _end_at_once)
    from hotkernel import mcp_server

    return mcp_server.main()


def _end_at_once(number: int, _frame: FrameType | None) -> None:
    """Nothing runs yet that would have to end before."""
    os.write(2, b"\nstopped; nothing is left running\n")
    os._exit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
