"""A job whose processes end with the server, however it ends; adds nothing to what a Job can do."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO

from hotkernel.machine import supervisor
from hotkernel.machine.process import Job

STOP_S = supervisor.GRACE_S + supervisor.KILL_S + 0.5

Screen = Callable[[Mapping[str, str]], Mapping[str, str]]


class SupervisedJob(Job):
    """Starts every process below a supervisor of its own (Linux; elsewhere a plain Job).

    `screen` decides which of the environment a process may see.
    """

    def __init__(self, screen: Screen | None = None) -> None:
        super().__init__()
        self._screen = screen

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
        """Like Job.start; the returned process is the supervisor, which ends as the command ends."""
        if self._screen is not None:
            env = self._screen(os.environ if env is None else env)
        if sys.platform == "linux" and _can_start(argv, cwd, env):
            life = _life()
            script = os.fspath(Path(supervisor.__file__))
            argv = [sys.executable, "-I", "-S", script, str(life), "--", *argv]
            pass_fds = (*pass_fds, life)
        return super().start(argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, pass_fds=pass_fds)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        """Ask the supervisor to end its whole tree, `setsid` or not, and wait for it."""
        if process.poll() is None:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(STOP_S)
        super().end(process)

    def end_all(self) -> None:
        """End everything that this job still runs."""
        self.cancel()
        with self._lock:
            alive = list(self._alive.values())
        for process in alive:
            self.end(process)


@functools.cache
def _life() -> int:
    """The reading end of a pipe that lives as long as this process: the writing end is inherited by nobody."""
    reading, _writing = os.pipe()
    return reading


def _can_start(argv: Sequence[str | os.PathLike[str]], cwd: Path | None, env: Mapping[str, str] | None) -> bool:
    """Whether the command and its folder exist; where not, a plain start gives the better error."""
    if not argv or (cwd is not None and not cwd.is_dir()):
        return False
    name = os.fspath(argv[0])
    if os.sep in name:
        path = Path(name) if cwd is None else cwd / name
        return os.access(path, os.X_OK) and path.is_file()
    return shutil.which(name, path=(os.environ if env is None else env).get("PATH")) is not None
