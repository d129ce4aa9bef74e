"""One timing at a time on a card, across all processes of the machine: waits in line, says that it waits, can be cancelled."""

from __future__ import annotations

import contextlib
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from hotkernel.errors import ToolError
from hotkernel.machine import driver
from hotkernel.machine.process import Cancelled
from hotkernel.schema.gpu import Gpu
from hotkernel.session import Session

if TYPE_CHECKING:
    import filelock

POLL_S = 0.2
TELL_EVERY_S = 2.0
CARDS_KEPT_S = 600.0


@contextlib.contextmanager
def card_held(session: Session) -> Iterator[float]:
    """Hold the first card that the user's code sees, or the CPU where there is none; gives the seconds waited for it.

    Another verify or bench ends by its own timeout, so the wait has an end. Raises ToolError where the state folder
    cannot be written, Cancelled when the job is.
    """
    import filelock

    gpu = first_gpu(session)
    path = _folder() / f"{gpu.uuid if gpu and gpu.uuid else 'cpu'}.lock"
    started = time.monotonic()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock, turn = (filelock.FileLock(each, mode=0o666) for each in (path, path.with_suffix(".next")))
        try:  # who holds the turn is the next: whoever just let go of the card, and comes back at once, is behind
            _acquire(session, turn, started)
            _acquire(session, lock, started)
        finally:
            turn.release()
    except OSError as error:
        raise ToolError(f"{path} cannot be locked: {error.strerror or error}",
                        fix="make room or give write permission there, or set TMPDIR to another folder") from None
    try:
        yield time.monotonic() - started
    finally:
        lock.release()


def first_gpu(session: Session) -> Gpu | None:
    """The first card that the user's code sees; the driver is asked now and then: where nobody holds it, that takes 0.3 s."""
    gpus, asked_s = session.nursery.gpus
    if not gpus or time.monotonic() - asked_s > CARDS_KEPT_S:
        gpus = tuple(driver.list_gpus().gpus)
        session.nursery.gpus = gpus, time.monotonic()
    seen = driver.visible(gpus, session.environment)
    return seen[0] if seen else None


def _acquire(session: Session, lock: filelock.BaseFileLock, started: float) -> None:
    """Wait for a lock, and say so; raises Cancelled."""
    import filelock

    told = time.monotonic()
    while not session.job.is_cancelled:
        with contextlib.suppress(filelock.Timeout):
            lock.acquire(timeout=POLL_S)
            return
        if time.monotonic() - told > TELL_EVERY_S:
            told = time.monotonic()
            session.progress(f"another hotkernel times here; waiting for {told - started:.0f} s", None, None)
    raise Cancelled


def _folder() -> Path:
    """One for the machine, not for the user's state: self-tests and benchmarks with a state of their own share the card."""
    folder = Path(tempfile.gettempdir()) / "hotkernel-locks"
    with contextlib.suppress(OSError):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o1777)  # other users lock here too
    return folder
