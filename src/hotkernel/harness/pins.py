"""The files that a target stands on, by their hashes; what changed is named."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

GONE = "gone"


def hash_file(path: Path) -> str:
    """SHA-256 of a file, or `gone`."""
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return GONE


def pins_of(loaded: Mapping[str, str], baseline: Path) -> dict[str, str]:
    """The baseline and every file of the user's own that it loads, as the oracle saw them."""
    return {str(baseline): hash_file(baseline), **loaded}


def changed_pins(known: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Files that are not what they were, or are new, where any are known; by name, so that a moved folder stays itself."""
    if not known:
        return []
    before, after = _by_name(known), _by_name(now)
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def _by_name(pins: Mapping[str, str]) -> dict[str, str]:
    return {Path(name).name: sha for name, sha in pins.items()}
