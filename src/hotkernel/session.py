"""What one tool call may use: the working root, settings, a job for processes, and progress; decides nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.harness.zygote import Nursery
from hotkernel.machine import programs
from hotkernel.machine.process import Job

Progress = Callable[[str, int | None, int | None], None]  # message, done, total


def no_progress(message: str, done: int | None = None, total: int | None = None) -> None:
    """Say nothing."""


@dataclass
class Session:
    """One tool call's surroundings; doors make it, tools take it first."""

    root: Path = field(default_factory=Path.cwd)
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    progress: Progress = no_progress
    job: Job = field(default_factory=Job)
    nursery: Nursery = field(default_factory=Nursery)  # shared by a server's calls, so that torch is imported once

    def path(self, text: str, *, cwd: str | None = None) -> Path:
        """The absolute path that `text` means, below `cwd` or the root; `C:\\…` becomes /mnt/c/… where that exists."""
        if not text:
            raise ToolError("a path is empty", fix="give the path of a file or folder")
        mapped = windows_path(text)
        path = Path(mapped if mapped is not None else text).expanduser()
        base = self.path(cwd) if cwd else self.root
        return path.resolve() if path.is_absolute() else (base / path).resolve()

    def file(self, text: str, *, cwd: str | None = None) -> Path:
        """Like `path`, and it must be a file that exists."""
        path = self.path(text, cwd=cwd)
        if path.is_dir():
            raise ToolError(f"{path} is no file but a folder", fix="give one of the files in it")
        if not path.is_file():
            raise ToolError(f"no such file: {path}", fix="check the path; it is resolved from cwd, else the working root")
        return path

    def folder(self, cwd: str) -> Path:
        """`cwd`, or the root where it is empty; it must be a folder that exists."""
        path = self.path(cwd) if cwd else self.root.resolve()
        if not path.is_dir():
            raise ToolError(f"no such folder: {path}", fix="check cwd")
        return path

    def python(self) -> Path:
        """The interpreter that has the user's torch."""
        return programs.user_python(self.environment)


def windows_path(text: str) -> str | None:
    """`C:\\a\\b` as /mnt/c/a/b, when this is WSL and that drive is mounted; else None."""
    match = re.fullmatch(r"([A-Za-z]):[\\/](.*)", text)
    if not match or os.name == "nt":
        return None
    drive = Path("/mnt") / match[1].lower()
    return str(drive / match[2].replace("\\", "/")) if drive.is_dir() else None
