"""Stands a process tree still and lets it go on; by /proc, where there is one."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable
from pathlib import Path

STOP_TIMEOUT_S = 2.0
IDLE_TIMEOUT_S = 0.005
_STANDS = "TtZXx"


def descendants(pid: int) -> set[int]:
    """Every living process below `pid`, itself left out; empty where there is no /proc."""
    if Path(f"/proc/self/task/{os.getpid()}/children").exists():
        return _below(pid, _listed_children)
    parents: dict[int, list[int]] = {}  # no such list in this kernel: one walk over all processes, some milliseconds
    for entry in os.scandir("/proc") if os.path.isdir("/proc") else ():  # noqa: PTH112 - in a hot path
        if entry.name.isdigit() and (stat := _stat(int(entry.name))):
            parents.setdefault(stat[1], []).append(int(entry.name))
    return _below(pid, lambda parent: parents.get(parent, []))


def is_running(pid: int) -> bool:
    """Whether a process has not ended yet, whoever its parent is; True where there is no /proc to say."""
    if not os.path.isdir("/proc/self"):  # noqa: PTH112 - as above
        return True
    stat = _stat(pid)
    return stat is not None and stat[0] not in "ZXx"


def stand_still(pid: int) -> list[int] | None:
    """Stop `pid`, its session and everything below it; the processes that stand, for `go_on`, or None when some do not."""
    _send(pid, signal.SIGSTOP)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    known = {pid}
    while time.monotonic() < deadline:
        if all(_stands(one) for one in known):
            below = descendants(pid)
            if below <= known:
                return sorted(known, reverse=True)
            for child in below - known:
                _send(child, signal.SIGSTOP)
            known |= below
        else:
            time.sleep(0.0001)
    return None


def is_standing(pids: Iterable[int]) -> bool:
    """Whether these processes, which stood, were not let go on since: who is, is woken with all its threads, its first too."""
    return all((_stat(pid) or ("X", 0))[0] in "TX" or _stands(pid) for pid in pids)


def wait_until_idle(pid: int) -> None:
    """Until a process's first thread sleeps, at most IDLE_TIMEOUT_S."""
    deadline = time.monotonic() + IDLE_TIMEOUT_S
    while (_stat(pid) or ("X", 0))[0] in "RD" and time.monotonic() < deadline:
        time.sleep(0.00002)


def go_on(pids: list[int]) -> None:
    """Let processes that stand still run again."""
    for pid in pids:
        _send(pid, signal.SIGCONT)


def used_us(pids: Iterable[int]) -> float:
    """What these processes have had of all cores so far, with their threads that ended; 0 where nobody says."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError):
            total += time.clock_gettime_ns(~pid << 3 | 2)  # the number that clock_getcpuclockid gives on Linux
    return total / 1e3


def waited_us(pid: int) -> float:
    """How long the threads of a process have been ready to run and had no core, since they began; 0 where nobody says."""
    total = 0
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int((task / "schedstat").read_text(encoding="ascii").split()[1])
    return total / 1e3


def _below(pid: int, children_of: Callable[[int], list[int]]) -> set[int]:
    found: set[int] = set()
    todo = [pid]
    while todo:
        for child in children_of(todo.pop()):
            if child not in found:
                found.add(child)
                todo.append(child)
    return found


def _listed_children(pid: int) -> list[int]:
    words: list[str] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - in a hot path
            words += Path(f"/proc/{pid}/task/{task}/children").read_text(encoding="ascii").split()
    return [int(word) for word in words]


def _stands(pid: int) -> bool:
    """Whether every thread of a process stands, or it is gone; its own letter is that of its first thread alone."""
    try:
        tasks = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - in a hot path
    except OSError:
        return True
    return all((_stat(f"{pid}/task/{task}") or ("X", 0))[0] in _STANDS for task in tasks)


def _send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, number)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _stat(pid: int | str) -> tuple[str, int] | None:
    """State letter and parent of a process, or of a thread as PID/task/TID; None when it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return fields[0].decode(), int(fields[1])
