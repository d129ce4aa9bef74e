"""Stands a process tree still and lets it go on; by /proc, where there is one."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

STOP_TIMEOUT_S = 2.0


def descendants(pid: int) -> set[int]:
    """Every living process below `pid`, itself left out; empty where there is no /proc."""
    found: set[int] = set()
    todo = [pid]
    while todo:
        for child in children(todo.pop()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def children(pid: int) -> list[int]:
    """The direct children: by the kernel's own list, which takes microseconds, else by a walk over /proc."""
    try:
        lists = [(task / "children").read_text(encoding="ascii") for task in Path(f"/proc/{pid}/task").iterdir()]
        return [int(word) for text in lists for word in text.split()]
    except FileNotFoundError:
        if not Path(f"/proc/{pid}").exists():
            return []
    except OSError:
        pass
    return [int(entry.name) for entry in Path("/proc").glob("[0-9]*") if (_stat(int(entry.name)) or ("", 0))[1] == pid]


def stand_still(pid: int) -> bool:
    """Stop `pid`, its session and everything below it; True once all of them stand."""
    _send(pid, signal.SIGSTOP)
    for child in descendants(pid):
        _send(child, signal.SIGSTOP)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while time.monotonic() < deadline:
        if all((_stat(one) or ("T", 0))[0] in "TtZX" for one in {pid, *descendants(pid)}):
            return True
        time.sleep(0.0002)
    return False


def standing(pid: int) -> list[int]:
    """`pid` and everything below it, to be handed to `go_on`; found beforehand, for the search takes milliseconds."""
    return [*descendants(pid), pid]


def go_on(pids: list[int]) -> None:
    """Let a tree that stands still run again."""
    for pid in pids:
        _send(pid, signal.SIGCONT)


def waited_us(pid: int) -> float:
    """How long the threads of a process have been ready to run and had no core, since they began; 0 where nobody says."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int((task / "schedstat").read_text(encoding="ascii").split()[1])
    return total / 1e3


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _stat(pid: int) -> tuple[str, int] | None:
    """State letter and parent of a process; None when it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return fields[0], int(fields[1])
