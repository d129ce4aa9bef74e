"""Keeps the last capture of each script, so that a row can be picked from it without another run; ranks nothing."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.records import files
from hotkernel.records.comparisons import as_json
from hotkernel.schema.capture import CaptureRun
from hotkernel.schema.plain import from_plain


def key_of(script: Path, args: Sequence[str], step: str) -> str:
    """What a capture is of: this script as it is now, these arguments, this step."""
    told = json.dumps([str(script), hashlib.sha256(script.read_bytes()).hexdigest(), list(args), step])
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def save(state: Path, key: str, run: CaptureRun) -> None:
    """Keep it in the place of an earlier one. Raises ToolError where the disk refuses."""
    folder = state / "captures"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"{folder} cannot be made: {error.strerror or error}", fix="set HOTKERNEL_STATE_DIR") from None
    files.write_whole(folder / f"{key}.json", as_json(run))


def load(state: Path, key: str) -> CaptureRun | None:
    """The capture kept under this key; None where there is none that can be read."""
    try:
        return from_plain(CaptureRun, files.read_object(state / "captures" / f"{key}.json"))
    except (OSError, files.NotJson, ValueError, TypeError, KeyError):
        return None
