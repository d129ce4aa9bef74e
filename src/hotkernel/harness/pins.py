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
    """Files that are not what they were, or are new, where any are known.

    By whole path: two packages each have an `__init__.py`. A moved folder has no known pins, for they lie by its path.
    """
    if not known:
        return []
    return sorted(path for path in {*known, *now} if known.get(path) != now.get(path))
