"""Writes a file whole or not at all, reads strict JSON, and keeps two writers apart; knows no file's meaning."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError

READ_LIMIT_BYTES = 32_000_000  # a saved comparison is about 20 kB and its sources; more than this is none of ours
LOCK_TIMEOUT_S = 60.0  # what is done under a lock takes milliseconds; longer means that its holder hangs

_NO_ROOM = {errno.ENOSPC: "the disk is full", errno.EDQUOT: "the disk quota is used up",
            errno.EFBIG: "the file would be larger than this process may write"}
_NO_PERMISSION = (errno.EACCES, errno.EPERM, errno.EROFS)


class NotJson(ValueError):
    """A file that holds no JSON object; its text says why."""


def write_whole(path: Path, content: str | bytes) -> None:
    """Write `content` as `path`, folders included, over what stood there.

    Raises ToolError where the disk refuses; what stood there before still stands then.
    """
    with _beside(path, content) as beside, refusal_said(path):
        beside.replace(path)
        _sync_folder(path.parent)


def write_new(path: Path, content: str | bytes) -> bool:
    """Write `content` as `path` unless something stands there; True when it was written. Raises ToolError as above."""
    with _beside(path, content) as beside, refusal_said(path):
        try:
            os.link(beside, path)  # unlike a rename, a link never goes over another file
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise
            return _claim(beside, path)  # exFAT and some network folders know no links
        _sync_folder(path.parent)
        return True


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in `path`. Raises NotJson for anything else, NaN included; OSError as the system does."""
    return parse_object(read_plain(path))


def read_plain(path: Path) -> bytes:
    """What is in `path`, a plain file of bearable size: a pipe of that name would wait for ever. Raises as above."""
    if not path.is_file():
        raise NotJson("it is no plain file")
    if path.stat().st_size > READ_LIMIT_BYTES:
        raise NotJson(f"it is larger than {READ_LIMIT_BYTES} bytes")
    return path.read_bytes()


def parse_object(content: bytes) -> dict[str, Any]:
    """The JSON object that `content` is. Raises NotJson."""
    try:
        value = json.loads(content.decode("utf-8"), parse_constant=_no_constant, parse_float=_finite)
    except UnicodeDecodeError as error:
        raise NotJson(f"it is not UTF-8 (byte {error.start})") from None
    except RecursionError:
        raise NotJson("it is nested too deep") from None
    except ValueError as error:
        raise NotJson(f"it is no JSON: {error}"[:300]) from None
    if not isinstance(value, dict):
        raise NotJson(f"it holds a {type(value).__name__}, not an object")
    return value


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock that the file `path` stands for, across threads and processes; it is made, and stays.

    Raises ToolError when it cannot be had within LOCK_TIMEOUT_S.
    """
    import filelock

    with refusal_said(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    lock = filelock.FileLock(path, timeout=LOCK_TIMEOUT_S)
    try:
        with refusal_said(path):
            lock.acquire()
    except filelock.Timeout:
        raise ToolError(f"another hotkernel held {path} for {LOCK_TIMEOUT_S:g} s",
                        fix="wait for it to end, or end it, and try again") from None
    try:
        yield
    finally:
        lock.release()


@contextlib.contextmanager
def _beside(path: Path, content: str | bytes) -> Iterator[Path]:
    """A finished file of that content in the same folder, under a name that no reader takes for a file of ours."""
    beside = path.with_name(f".{path.name[:64]}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with refusal_said(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(beside, "xb") as file:
                file.write(content.encode("utf-8") if isinstance(content, str) else content)
                file.flush()
                os.fsync(file.fileno())
        yield beside
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


@contextlib.contextmanager
def refusal_said(path: Path) -> Iterator[None]:
    """The system's refusal as one that says what to do."""
    try:
        yield
    except TimeoutError:
        raise  # a lock's, which is no refusal of the disk
    except OSError as error:
        raise _refusal(path, error) from None


def _refusal(path: Path, error: OSError) -> ToolError:
    why = error.strerror or str(error)
    if error.errno in _NO_ROOM:
        return ToolError(f"{path} was not written: {_NO_ROOM[error.errno]}",
                         fix="make room and call again; nothing was left half-written", detail=why)
    if error.errno in _NO_PERMISSION:
        return ToolError(f"{path} was not written: no permission ({why})",
                         fix=f"give write permission on {path.parent}, or work in another folder", detail=str(error))
    return ToolError(f"{path} was not written: {why}", fix="check that its folder is one", detail=str(error))


def _claim(beside: Path, path: Path) -> bool:
    """Rename `beside` to `path` unless something stands there; the name is claimed first, and given up again."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    except FileExistsError:
        return False
    try:
        beside.replace(path)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return True


def _sync_folder(folder: Path) -> None:
    """Make a new name durable too, where the system can (Windows opens no folders)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _no_constant(word: str) -> Any:
    raise ValueError(f"{word} is no JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no finite number")
    return number
