"""Copies of the files that a side runs, taken once, so that what is hashed is what runs; and a folder of caches for each."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterator
from pathlib import Path

from hotkernel.errors import ToolError

KEPT = {".py", ".cu", ".cuh", ".h", ".hpp", ".cpp", ".cc", ".c", ".ptx", ".cubin", ".json", ".toml"}
LEFT_OUT = {"__pycache__", "results", "node_modules", "build", "dist", "venv", "site-packages"}
FILES_LIMIT, BYTES_LIMIT, DEPTH = 500, 20 << 20, 3


def snapshot(file: Path, folder: Path) -> Path:
    """A copy in `folder` of `file` with the sources of its folder; returns the copy of `file`. Raises ToolError."""
    for name, content in _contents(file).items():
        copy = folder / name
        try:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(content)
        except OSError as error:
            raise ToolError(f"{copy} cannot be written: {error.strerror or error}",
                            fix="make room there, or set TMPDIR to another folder") from None
    return folder / file.name


def caches_for(state: Path, file: Path, *identity: str, other: Path | None = None) -> Path:
    """The compile caches of what `file`'s folder holds under this interpreter: its own, shared with no other source.

    The `other` side's file counts for nothing: a baseline is not compiled anew for each candidate that lies beside it.
    """
    whole = hashlib.sha256()
    for name, content in sorted(_contents(file).items()):
        if other and file.parent / name == other != file:
            continue
        whole.update(str(name).encode() + b"\0" + hashlib.sha256(content).digest())
    for part in (file.name, *identity):
        whole.update(part.encode() + b"\0")
    return state / "caches" / whole.hexdigest()[:24]


def _contents(file: Path) -> dict[Path, bytes]:
    """The sources of the file's folder, by relative path; the file alone where there are too many. Raises ToolError.

    A home folder or a whole project is too much: what a file imports beside it must then be inside a smaller one.
    """
    found: dict[Path, bytes] = {}
    total = 0
    for count, source in enumerate(_sources(file.parent, DEPTH)):
        with contextlib.suppress(OSError):  # a neighbour that cannot be read is missed by who imports it, if anyone does
            total += source.stat().st_size
            if count > FILES_LIMIT or total > BYTES_LIMIT:
                found.clear()
                break
            found[source.relative_to(file.parent)] = source.read_bytes()
    try:
        found[Path(file.name)] = file.read_bytes()
    except OSError as error:
        raise ToolError(f"{file} cannot be read: {error.strerror or error}", fix="give read permission on it") from None
    return found


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
