"""Moves a target's logs apart when they are no longer comparable; nothing is lost, and the board lists them apart."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.records import confirmations, files, later_reasons
from hotkernel.records.store import SUPERSEDED
from hotkernel.schema.record import Logged

REASON = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,46}[A-Za-z0-9])?")


def folder_name(reason: str) -> str:
    """`superseded-<reason>`; spaces become dashes. Raises ToolError where a folder cannot be called so."""
    word = re.sub(r"\s+", "-", reason.strip())
    if not REASON.fullmatch(word):
        raise ToolError(f"{reason[:80]!r} cannot name a folder",
                        fix="give a short reason of letters, digits, dots and dashes, such as baseline-changed")
    return f"{SUPERSEDED}-{word}"


def supersede(base: Path, logs: Sequence[Logged], reason: str) -> tuple[str, ...]:
    """Move these logs, with all that lies beside them, into a folder that says why; their old names.

    Each log goes last of its files, so that what was interrupted is finished by asking again. Never over another file.
    """
    name = folder_name(reason)
    for logged in logs:
        log = base / logged.log
        apart = log.parent / name
        for path in [*_beside(log, logged), log]:
            _move(path, apart / path.name)
    return tuple(logged.log for logged in logs)


def _beside(log: Path, logged: Logged) -> list[Path]:
    copy = logged.record.candidate_file
    copies = [log.with_name(Path(copy).name)] if copy else []
    confirming = confirmations.in_folder(log.parent).get(log.stem, ())
    return [path for path in (*copies, *confirming, later_reasons.path_of(log)) if path.exists()]


def _move(path: Path, to: Path) -> None:
    with files.refusal_said(to):
        to.parent.mkdir(exist_ok=True)
        if to.exists():
            raise ToolError(f"{to} is there already", fix="give another reason, so that the two do not meet")
        path.rename(to)
