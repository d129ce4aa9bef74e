"""Copies of the files that a side runs, taken once, so that what is hashed is what runs; and a folder of caches for each."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from hotkernel.errors import ToolError

KEPT = {".py", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".c", ".ptx", ".cubin", ".json", ".toml"}
LEFT_OUT = {"__pycache__", "results", "node_modules", "build", "dist", "venv", "site-packages"}
FILES_LIMIT, BYTES_LIMIT, DEPTH = 500, 20 << 20, 3


def snapshot(file: Path, folder: Path) -> Path:
    """A copy in `folder` of `file` with the sources of its folder; returns the copy of `file`. Raises ToolError."""
    total = 0
    for count, source in enumerate(_sources(file.parent, DEPTH)):
        total += source.stat().st_size
        if count > FILES_LIMIT or total > BYTES_LIMIT:
            # a home folder or a whole project: the file alone, and what it imports beside it must be inside a smaller one
            shutil.rmtree(folder, ignore_errors=True)
            break
        copy = folder / source.relative_to(file.parent)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, copy)
    copy = folder / file.name
    copy.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copyfile(file, copy)
    except OSError as error:
        raise ToolError(f"{file} cannot be read: {error.strerror or error}", fix="give read permission on it") from None
    return copy


def caches_for(state: Path, file: Path, *identity: str) -> Path:
    """The compile caches of what `file`'s folder holds under this interpreter: its own, shared with no other source."""
    whole = hashlib.sha256()
    for source in sorted(_sources(file.parent, DEPTH)):
        whole.update(str(source.relative_to(file.parent)).encode() + b"\0" + hashlib.sha256(source.read_bytes()).digest())
    for part in (file.name, *identity):
        whole.update(part.encode() + b"\0")
    return state / "caches" / whole.hexdigest()[:24]


def _sources(folder: Path, depth: int) -> Iterator[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name in LEFT_OUT or entry.is_symlink():
            continue
        if entry.is_dir() and depth > 1:
            yield from _sources(entry, depth - 1)
        elif entry.is_file() and entry.suffix in KEPT:
            yield entry
