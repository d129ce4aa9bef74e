"""Measures a recorded row once more, from its kept source with fresh processes and inputs; keeps and changes nothing."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.record import Logged
from hotkernel.schema.verdict import Side
from hotkernel.session import Session
from hotkernel.tools.speed import judge


def verify_again(session: Session, logged: Logged, *, cwd: str = "", confirms: bool = False) -> Comparison:
    """A fresh verify of this row; one that `confirms` stands alone, apart from the test that its key goes on with.

    Raises ToolError where the row's files are not there any longer, or nothing was measured by hotkernel.
    """
    then = logged.record.comparison
    if not logged.record.is_verified:
        raise ToolError("the scripts timed themselves, so there is nothing to hold to", fix="make a target with new_target")
    baseline = _baseline_of(then)
    with tempfile.TemporaryDirectory(prefix="hotkernel-again-") as folder:
        files = {Side.BASELINE: baseline, Side.CANDIDATE: _candidate_of(then, Path(folder))}
        return judge(session, files, cwd=cwd, confirms=then.id if confirms else None)


def _baseline_of(then: Comparison) -> Path:
    """The baseline's file, the same as then."""
    named, wanted = then.cmds.get("baseline", []), then.sources.get("baseline")
    path = Path(named[-1]) if named else None
    if path is None or not path.is_file():
        raise ToolError(f"the baseline {path or ''} is not on this machine", fix="put the target's files back where they were")
    if wanted is not None and hashlib.sha256(path.read_bytes()).hexdigest() != wanted.sha256:
        raise ToolError(f"{path} is not the baseline that the row was measured against",
                        fix="put the file of then back, or supersede the row")
    return path


def _candidate_of(then: Comparison, folder: Path) -> Path:
    """The candidate as it was: its own file where that is unchanged, for the sources beside it, else the kept text."""
    source = then.sources.get("candidate")
    if source is None or source.text is None:
        raise ToolError(f"{then.id} kept no source", fix="a row without its source cannot be verified again")
    named = then.cmds.get("candidate", [])
    path = Path(named[-1]) if named else None
    if path is not None and path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == source.sha256:
        return path
    copy = folder / Path(source.name).name
    copy.write_bytes(source.text.encode("utf-8", "surrogateescape"))
    return copy
