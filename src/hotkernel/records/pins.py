"""Keeps what a target stood on when it was pinned: a file of hashes for each baseline; judges no change."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from hotkernel.records.files import NotJson, read_object, write_new, write_whole

FOLDER = "pins"


def load(state: Path, baseline: Path) -> dict[str, str]:
    """The pinned files of this baseline, path -> SHA-256; empty where none are known."""
    try:
        known = read_object(pin_file(state, baseline))
    except (OSError, NotJson):
        return {}
    return {name: sha256 for name, sha256 in known.items() if isinstance(sha256, str)}


def save(state: Path, baseline: Path, pins: Mapping[str, str], *, replace: bool = False) -> None:
    """Pin these files; pins that stand already stay, unless the target was made anew (`replace`). Raises ToolError."""
    text = json.dumps(dict(pins), indent=1, sort_keys=True) + "\n"
    if replace:
        write_whole(pin_file(state, baseline), text)
    else:
        write_new(pin_file(state, baseline), text)


def forget(state: Path, baseline: Path) -> None:
    """No longer know this baseline."""
    with contextlib.suppress(OSError):
        pin_file(state, baseline).unlink()


def pin_file(state: Path, baseline: Path) -> Path:
    """Where the pins of a baseline lie: by its path, so that a moved folder is pinned anew."""
    return state / FOLDER / f"{hashlib.sha256(str(baseline.resolve()).encode()).hexdigest()[:24]}.json"
