"""Runs one command and outlives it by nothing: when the command ends, or whoever asked for it dies, all of it goes.

    python -I -S supervisor.py LIFE_FD -- command argument…

LIFE_FD is the reading end of a pipe whose only writing end the server holds: even SIGKILL on the server is seen.
Linux only, standard library only; it sleeps until something happens, so it disturbs no measurement.
"""

import contextlib
import ctypes
import os
import select
import signal
import sys
import time

PR_SET_CHILD_SUBREAPER = 36  # orphans, setsid or not, come back to this process
GRACE_S = 1.5  # between TERM and KILL; less than the server's own patience with us
KILL_S = 3.0  # how long the last sweep may take; a process that waits inside a driver cannot be ended sooner
POLL_S = 0.02


def main(argv: list[str]) -> int:
    """Run the command of `argv` and return its exit status; a status below 0 is the signal that ended it."""
    life, command = int(argv[1]), argv[3:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.set_inheritable(life, False)
    waker = _wake_on_signals()
    child = os.fork()
    if child == 0:
        _become(command)
    _let_go_of_all_but({life, waker, *_ends_of_wakeup()})
    status = _wait(child, life, waker)
    if status is None:
        _signal_all(signal.SIGTERM)
        status = _reap_until(time.monotonic() + GRACE_S, child, None)
    deadline = time.monotonic() + KILL_S
    while _has_children() and time.monotonic() < deadline:
        _signal_all(signal.SIGKILL)
        status = _reap_until(time.monotonic() + POLL_S, child, status)
    return os.waitstatus_to_exitcode(status) if status is not None else -signal.SIGKILL


def _become(command: list[str]) -> None:
    """Turn the forked child into the command, in a group of its own so that a signal for us is not doubled for it."""
    os.setpgid(0, 0)
    for name in ("SIGPIPE", "SIGXFSZ"):  # Python ignores these two; a command expects them
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        os.write(2, f"{command[0]} cannot be started: {error}\n".encode())
    os._exit(127)


_wakeup: list[int] = []


def _wake_on_signals() -> int:
    """A descriptor that becomes readable when a child ends or when we are asked to stop."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    _wakeup.extend((reading, writing))
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writing)
    return reading


def _ends_of_wakeup() -> list[int]:
    return _wakeup


def _let_go_of_all_but(kept: set[int]) -> None:
    """Close what the command inherited through us, so that its end of a pipe is the only one."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    for number in map(int, os.listdir("/proc/self/fd")):  # noqa: PTH208 - pathlib would double the start-up
        if number > 2 and number not in kept:
            with contextlib.suppress(OSError):
                os.close(number)


def _wait(child: int, life: int, waker: int) -> int | None:
    """The command's wait status once it has ended; None when it must be stopped."""
    poll = select.poll()
    poll.register(life, select.POLLIN | select.POLLHUP)
    poll.register(waker, select.POLLIN)
    while True:
        for number, _ in poll.poll():
            if number == life:
                return None
            if set(os.read(waker, 4096)) - {signal.SIGCHLD}:
                return None
        status = _reap(child, None)
        if status is not None:
            return status


def _reap(child: int, status: int | None) -> int | None:
    """Bury every child that has ended; the command's own wait status if it is among them, else `status`."""
    with contextlib.suppress(ChildProcessError):
        while True:
            pid, ended = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            if pid == child:
                status = ended
    return status


def _reap_until(deadline: float, child: int, status: int | None) -> int | None:
    while True:
        status = _reap(child, status)
        if not _has_children() or time.monotonic() >= deadline:
            return status
        time.sleep(POLL_S)


def _has_children() -> bool:
    """Whether anything we started still runs: orphans come back to us, so no child means no descendant."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _signal_all(number: int) -> None:
    for pid in _descendants(os.getpid()):
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _descendants(root: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):  # noqa: PTH208
        if name.isdigit():
            with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", encoding="utf-8",
                                                                errors="replace") as file:
                text = file.read()
                children.setdefault(int(text[text.rindex(")") + 2 :].split()[1]), []).append(int(name))
    found, open_ends = [], [root]
    while open_ends:
        for pid in children.get(open_ends.pop(), []):
            found.append(pid)
            open_ends.append(pid)
    return found


def _end_as(code: int) -> None:
    """End this process as the command ended: its exit status, or its signal, without a core file of our own."""
    if code < 0:
        import resource  # not everywhere, and this file is imported everywhere

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with contextlib.suppress(OSError):  # SIGKILL's action cannot be set, and need not be
            signal.signal(-code, signal.SIG_DFL)
        os.kill(os.getpid(), -code)
    os._exit(code if code >= 0 else 128 - code)


if __name__ == "__main__":
    _end_as(main(sys.argv))
