"""One timing at a time on a card, across all processes of the machine: waits, says that it waits, can be cancelled."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.machine import driver
from hotkernel.machine.process import Cancelled
from hotkernel.session import Session

POLL_S = 0.2
TELL_EVERY_S = 2.0


@contextlib.contextmanager
def card_held(session: Session) -> Iterator[float]:
    """Hold the first card that the user's code sees, or the CPU where there is none; gives the seconds waited for it.

    Another verify or bench ends by its own timeout, so the wait has an end. Raises ToolError where the state folder
    cannot be written, Cancelled when the job is.
    """
    import filelock

    path = _folder() / f"{_card(session)}.lock"
    started = told = time.monotonic()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(path, mode=0o666)
        while True:
            if session.job.is_cancelled:
                raise Cancelled
            with contextlib.suppress(filelock.Timeout):
                lock.acquire(timeout=POLL_S)
                break
            if time.monotonic() - told > TELL_EVERY_S:
                told = time.monotonic()
                session.progress(f"another hotkernel times here; waiting for {told - started:.0f} s", None, None)
    except OSError as error:
        raise ToolError(f"{path} cannot be locked: {error.strerror or error}",
                        fix="make room or give write permission there, or set TMPDIR to another folder") from None
    try:
        yield time.monotonic() - started
    finally:
        lock.release()


def _folder() -> Path:
    """One for the machine, not for the user's state: self-tests and benchmarks with a state of their own share the card."""
    folder = Path(tempfile.gettempdir()) / "hotkernel-locks"
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)  # other users lock here too
    return folder


def _card(session: Session) -> str:
    found = driver.visible(driver.list_gpus().gpus, session.environment)
    return found[0].uuid or "cpu" if found else "cpu"
