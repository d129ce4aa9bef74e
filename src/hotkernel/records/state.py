"""Says where hotkernel keeps what outlives a call, and writes a file whole or not at all; knows no file's meaning."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Mapping
from pathlib import Path

from hotkernel.errors import ToolError

VARIABLE = "HOTKERNEL_STATE_DIR"


def state_dir(environment: Mapping[str, str]) -> Path:
    """The state folder, absolute and not yet made: HOTKERNEL_STATE_DIR, else the user's own.

    An empty value or an unexpanded `${…}` counts as unset.
    """
    named = environment.get(VARIABLE, "").strip()
    if named and not (named.startswith("${") and named.endswith("}")):
        return Path(named).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_state_dir("hotkernel", appauthor=False)).absolute()


def write_whole(path: Path, text: str) -> None:
    """Write `text` as `path`, folders included, so that no reader ever sees a part of it, not even after a crash.

    Raises ToolError where the disk refuses; what stood there before still stands then.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(beside, "x", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        raise ToolError(f"{path} could not be written: {error.strerror or error}",
                        fix=f"make room or give write permission there, or set {VARIABLE} to another folder") from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable, where the system can (Windows opens no folders)."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
