"""Sizes and removes folders that a candidate wrote in: whatever depth, names and rights it gave them; follows no link."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import time
from pathlib import Path

REMOVAL_S = 30.0


def bytes_on_disk(folder: Path) -> int:
    """What lies below a folder takes on its disk; what cannot be looked at, or is gone by now, counts for nothing."""
    total, todo = 0, [str(folder)]
    while todo:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                else:
                    with contextlib.suppress(OSError):
                        total += 512 * entry.stat(follow_symlinks=False).st_blocks
    return total


def remove(folder: Path) -> None:
    """Remove a folder with all below it, as far as this user may, in REMOVAL_S.

    Each level is moved up before it is emptied: a tree may be deeper than a path, or a stack, is long.
    """
    deadline, own = time.monotonic() + REMOVAL_S, secrets.token_hex(8)
    numbers, refused = itertools.count(), set[str]()
    while time.monotonic() < deadline and (names := _names(folder) - refused):
        for name in names:
            try:
                _remove_one(folder, name, f"{own}-{next(numbers)}")
            except OSError:
                refused.add(name)
    with contextlib.suppress(OSError):
        folder.rmdir()


def _names(folder: Path) -> set[str]:
    with contextlib.suppress(OSError):
        return set(os.listdir(folder))  # noqa: PTH208 - names, with no path of each
    return set()


def _remove_one(folder: Path, name: str, prefix: str) -> None:
    """One entry; of a folder, its folders come to lie beside it. Raises OSError where something refuses."""
    path = folder / name
    if path.is_symlink() or not path.is_dir():
        path.unlink()
        return
    path.chmod(0o700)
    for at, child in enumerate(path.iterdir()):
        if child.is_dir() and not child.is_symlink():
            child.chmod(0o700)  # a folder that may not be written in cannot be moved
            child.rename(folder / f"{prefix}-{at}")
        else:
            child.unlink()
    path.rmdir()
