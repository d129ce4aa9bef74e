"""Runs one of the contract's programs over a user's script, in the user's Python, and reads its answer; concludes nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.machine.process import Finished
from hotkernel.profilers import nsys
from hotkernel.session import Session
from hotkernel.tools import profiler_runs

PROGRAMS = Path(__file__).parents[2] / "hotkernel_contract"
LAST_LINE_LIMIT = 300  # of a script's own error, in the message
PLAIN_FIRST = "run it with plain python first, with no profiler of its own in it"


@dataclass(frozen=True)
class Asked:
    """The user's script and how it is to be run; `step` is its function that is one step, or empty."""

    script: Path
    args: tuple[str, ...]
    step: str
    cwd: str
    timeout_s: float


@dataclass(frozen=True)
class Answered:
    """What a program wrote down of the script, and how it ran."""

    answer: dict[str, Any]
    finished: Finished
    waited_for_gpu_s: float


def command(session: Session, asked: Asked, program: str, *own: str | Path) -> list[str]:
    """`program.py OWN... script.py [arguments]`: how each of them is called."""
    return [*map(str, (session.python(), PROGRAMS / f"{program}.py", *own, asked.script)), *asked.args]


def run(session: Session, asked: Asked, program: str, answer: Path, *own: str | Path, what: str,
        is_target: bool = False) -> Answered:
    """Run the program, alone on the card, and read the file `answer` that it writes.

    Raises ToolError, which calls it `what`, where the script failed in it or ended the process itself.
    """
    argv = command(session, asked, program, answer, *own)
    finished, waited_s = profiler_runs.run(session, what, argv, asked.cwd, asked.timeout_s, is_target)
    try:
        told: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ToolError(f"the script ended its process under {what} (exit status {finished.returncode})",
                        fix=f"{PLAIN_FIRST}; os._exit and crashes leave no answer", detail=finished.tail()) from None
    if told["error"]:
        said = nsys.said_tail(str(told["error"]))
        last = (said.strip().splitlines() or [""])[-1]
        raise ToolError(f"the script failed under {what}: {last[:LAST_LINE_LIMIT]}", fix=PLAIN_FIRST, detail=said)
    return Answered(told, finished, waited_s)
