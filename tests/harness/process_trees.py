"""Trees of real processes for the tests of harness and tree: what lives, under which parent, and in which state."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil

WAIT_S = 10.0


def wait_until(is_so: Callable[[], bool], timeout_s: float = WAIT_S) -> bool:
    """Whether it came to be so in time; asks every few milliseconds."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if is_so():
            return True
        time.sleep(0.005)
    return is_so()


def is_alive(pid: int) -> bool:
    """Whether a process runs or stands; a zombie does neither."""
    try:
        return psutil.Process(pid).status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def are_gone(pids: list[int], timeout_s: float) -> bool:
    return wait_until(lambda: not any(is_alive(pid) for pid in pids), timeout_s)


def numbers_in(file: Path, count: int) -> list[int]:
    """The pids that processes wrote into a file, once there are `count` of them."""
    def read() -> list[int]:
        return [int(word) for word in file.read_text(encoding="ascii").split()] if file.exists() else []

    assert wait_until(lambda: len(read()) >= count), f"{file} holds {read()}"
    return read()


@contextlib.contextmanager
def all_ended(pids: list[int]) -> Iterator[None]:
    """Leave none of these processes behind, however the test goes."""
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
