"""Keeps independent confirmations of a recorded row beside its log; they prove or weaken it, and never select."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.records import files
from hotkernel.records.comparisons import as_json
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.plain import from_plain
from hotkernel.schema.record import Logged, Skipped

MARK = ".confirmation-"  # between the log's stem and a number
MOST = 99  # of one row
PARSED_KEPT = 64  # by what is in them, as logs are


def write(base: Path, logged: Logged, found: Comparison) -> Path:
    """Keep `found`, made to confirm this row, beside its log. Raises ToolError where it was made for another."""
    if found.confirms != logged.record.comparison.id:
        raise ToolError(f"{found.id} was not made to confirm {logged.log}", fix="ask record for confirmations of this row")
    log = base / logged.log
    for number in range(1, MOST + 1):
        path = log.with_name(f"{log.stem}{MARK}{number}.json")
        if files.write_new(path, as_json(found)):
            return path
    raise ToolError(f"{logged.log} already has {MOST} confirmations", fix="they say by now what there is to say")


def in_folder(folder: Path) -> dict[str, list[Path]]:
    """Every confirmation in a target's folder, oldest first, by the stem of the log that it stands beside."""
    numbered: dict[str, dict[int, Path]] = {}
    for path in folder.iterdir():
        stem, _, number = path.name.removesuffix(".json").rpartition(MARK)
        if stem and number.isdecimal() and path.suffix == ".json":
            numbered.setdefault(stem, {})[int(number)] = path
    return {stem: [paths[number] for number in sorted(paths)] for stem, paths in numbered.items()}


def read(base: Path, logged: Logged, paths: Sequence[Path]) -> tuple[tuple[Comparison, ...], tuple[Skipped, ...]]:
    """The confirmations of a row among `paths`, and the files called so that are none."""
    kept, skipped = [], []
    for path in paths:
        where = path.relative_to(base).as_posix()
        try:
            found = _parsed(files.read_plain(path))
        except OSError as error:
            skipped.append(Skipped(where, f"it cannot be read: {error.strerror or error}"))
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            skipped.append(Skipped(where, str(error)[:300]))
        else:
            if found.confirms == logged.record.comparison.id:
                kept.append(found)
            else:
                skipped.append(Skipped(where, f"it confirms {str(found.confirms)[:64]}, and lies beside another log"))
    return tuple(kept), tuple(skipped)


@functools.lru_cache(PARSED_KEPT)
def _parsed(content: bytes) -> Comparison:
    return from_plain(Comparison, files.parse_object(content))
