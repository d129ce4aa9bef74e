"""Keeps why a row won where that was found later: dated, in a file beside its log, which stays as it was written."""

from __future__ import annotations

from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.records import files
from hotkernel.records.comparisons import as_json
from hotkernel.schema.explanation import Difference
from hotkernel.schema.plain import from_plain
from hotkernel.schema.record import LaterReason, Logged, Skipped

ENDING = ".why.json"  # behind the log's stem


def path_of(log: Path) -> Path:
    """Where the later reason of this log stands, if it has one."""
    return log.with_name(log.stem + ENDING)


def write(base: Path, logged: Logged, why: Difference, timestamp: str) -> None:
    """Keep it beside the row's log. Raises ToolError where the row has a reason already: none is ever written over."""
    path = path_of(base / logged.log)
    found = LaterReason(logged.record.comparison.id, timestamp, why)
    if logged.why is not None or not files.write_new(path, as_json(found)):
        raise ToolError(f"{logged.log} has its reason already", fix="show tells it; what it says stays")


def read(base: Path, logged: Logged) -> tuple[LaterReason | None, tuple[Skipped, ...]]:
    """The later reason of a row; and a file called so that is none."""
    path = path_of(base / logged.log)
    where = path.relative_to(base).as_posix()
    if not path.exists():
        return None, ()
    try:
        found = from_plain(LaterReason, files.read_object(path))
    except OSError as error:
        return None, (Skipped(where, f"it cannot be read: {error.strerror or error}"),)
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        return None, (Skipped(where, str(error)[:300]),)
    if found.of != logged.record.comparison.id:
        return None, (Skipped(where, f"it is of {found.of[:64]}, and lies beside another log"),)
    return found, ()
