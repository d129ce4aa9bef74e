"""Starts, bounds and ends child processes; the only place in the server's Python that does."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hotkernel.errors import ToolError

OUTPUT_LIMIT_BYTES = 50_000_000  # a SASS listing of a large library is tens of megabytes; more is a runaway
GRACE_S = 2.0  # between the polite signal and the final one
POLL_S = 0.05
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has the one signal, which ends at once


@dataclass(frozen=True)
class Finished:
    """One process that ended by itself: its words, its exit status and how long it took."""

    argv: tuple[str, ...]
    returncode: int
    stdout: str
    stderr: str
    wall_s: float

    @property
    def ok(self) -> bool:
        return self.returncode == 0

    def tail(self, limit: int = 2000) -> str:
        """The end of what it said, standard error first, for an error's detail."""
        said = [text.strip()[-limit:] for text in (self.stderr, self.stdout) if text.strip()]
        return "\n".join(said) or f"it said nothing; exit status {self.returncode}"


class Cancelled(Exception):
    """The caller asked this job to stop."""


class Job:
    """The child processes of one tool call; each leads a session of its own, so that a kill takes its children too."""

    def __init__(self) -> None:
        self._alive: dict[int, subprocess.Popen[Any]] = {}
        self._lock = threading.Lock()
        self._cancelled = threading.Event()

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        timeout_s: float,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        watch: Callable[[float], None] | None = None,
    ) -> Finished:
        """Run `argv` to its end and return what it said.

        `watch(seconds)` is called about every second while it runs. Raises ToolError when the program does not exist,
        cannot be started or outlasts `timeout_s`, Cancelled when `cancel` was called; its whole group is gone then.
        """
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            started = time.monotonic()
            process = self.start(argv, cwd=cwd, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err)
            try:
                self._wait(process, started, timeout_s, watch)
            except subprocess.TimeoutExpired:
                detail = (_read(err)[-2000:] + "\n" + _read(out)[-2000:]).strip()
                raise ToolError(
                    f"{_name(argv)} did not end within {timeout_s:g} s and was stopped",
                    fix="give a larger timeout, or find out what it waits for",
                    detail=detail,
                ) from None
            finally:
                self.end(process)
            return Finished(
                tuple(map(str, argv)), process.returncode, _read(out), _read(err), time.monotonic() - started
            )

    def start(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[bytes] | None = None,
        stdout: int | IO[bytes] | None = None,
        stderr: int | IO[bytes] | None = None,
        pass_fds: Sequence[int] = (),
    ) -> subprocess.Popen[bytes]:
        """Start `argv` in a session of its own and return it; `end` must be called on it.

        Raises ToolError when it cannot be started.
        """
        if self._cancelled.is_set():
            raise Cancelled
        try:
            process = subprocess.Popen(
                [os.fspath(part) for part in argv],
                cwd=cwd,
                env=None if env is None else dict(env),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                pass_fds=tuple(pass_fds),
                start_new_session=True,
            )
        except FileNotFoundError as error:
            missing = cwd if cwd is not None and not cwd.is_dir() else argv[0]
            raise ToolError(f"no such file or folder: {missing}", fix="check the path", detail=str(error)) from None
        except (PermissionError, OSError, ValueError) as error:
            raise ToolError(f"{_name(argv)} cannot be started: {error}", fix="check the command") from None
        with self._lock:
            self._alive[process.pid] = process
        return process

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """End a started process and whatever is left of its session; safe to call again."""
        _signal_group(process.pid, signal.SIGTERM if process.poll() is None else KILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        _signal_group(process.pid, KILL)
        process.wait()
        with self._lock:
            self._alive.pop(process.pid, None)

    def hand_over(self, process: subprocess.Popen[bytes], to: Job) -> None:
        """Make a process that this job started another job's to end. Raises Cancelled when that one was cancelled."""
        if to.is_cancelled:
            raise Cancelled
        with self._lock:
            self._alive.pop(process.pid, None)
        with to._lock:
            to._alive[process.pid] = process

    def cancel(self) -> None:
        """Stop everything this job runs, from any thread; what waits in `run` raises Cancelled."""
        self._cancelled.set()
        with self._lock:
            alive = list(self._alive.values())
        for process in alive:
            _signal_group(process.pid, signal.SIGTERM)

    @property
    def is_cancelled(self) -> bool:
        return self._cancelled.is_set()

    def _wait(
        self,
        process: subprocess.Popen[bytes],
        started: float,
        timeout_s: float,
        watch: Callable[[float], None] | None,
    ) -> None:
        told = started
        while True:
            now = time.monotonic()
            left = started + timeout_s - now
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, min(POLL_S, left)))
                if self._cancelled.is_set():
                    raise Cancelled
                return
            if self._cancelled.is_set():
                raise Cancelled
            if left <= 0:
                raise subprocess.TimeoutExpired(process.args, timeout_s)
            if watch and now - told >= 1.0:
                told = now
                watch(now - started)


def keep_private() -> None:
    """Let no other process of this user look into this one or write to its files, where the system can see to that."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)  # PR_SET_DUMPABLE: /proc/PID/fd and mem are root's then


def _signal_group(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(pid, number)
        else:  # Windows knows no groups: what it started of its own lives on
            os.kill(pid, number)


def _read(file: IO[bytes]) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - OUTPUT_LIMIT_BYTES))
    return file.read().decode("utf-8", "replace")


def _name(argv: Sequence[str | os.PathLike[str]]) -> str:
    return Path(os.fspath(argv[0])).name if argv else "an empty command"
