"""Keeps the logs under results/: writes one whole and never over another, reads them all, and names what is none."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.records import files
from hotkernel.records.comparisons import as_json
from hotkernel.schema.comparison import PROTOCOL
from hotkernel.schema.plain import from_plain
from hotkernel.schema.record import (
    RESERVED_TARGETS,
    SCHEMA,
    TARGET_PATTERN,
    Logged,
    Record,
    Skipped,
    Superseded,
)

RESULTS = "results"
SUPERSEDED = "superseded-"  # and a reason: a folder of a target with logs of an older protocol
NAMES_TRIED = 1000  # records of one target within one second
_DEVICE_NAMES = re.compile(r"(?i)(con|prn|aux|nul|com\d|lpt\d)(\..*)?")  # no folder of Windows may be called so
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,8}")


@dataclass(frozen=True)
class Shelf:
    """All that lies under results/: the records as they were made, older protocols' apart, and what is neither."""

    records: tuple[Logged, ...] = ()
    superseded: tuple[Superseded, ...] = ()
    skipped: tuple[Skipped, ...] = ()

    def of(self, comparison_id: str) -> Logged | None:
        """The record of this comparison, under whatever target it stands."""
        return next((each for each in self.records if each.record.comparison.id == comparison_id), None)


def check_target(name: str) -> str:
    """`name`, if a target's folder can be called so. Raises ToolError that says what is wrong."""
    if not TARGET_PATTERN.fullmatch(name) or _DEVICE_NAMES.fullmatch(name):
        raise ToolError(f"{name[:80]!r} cannot be a target's name",
                        fix="use 1 to 64 of A-Z a-z 0-9 _ - and single dots, beginning with a letter, a digit or _")
    if name in RESERVED_TARGETS or name.startswith(SUPERSEDED):
        raise ToolError(f"results/{name} is kept for something else", fix="give the target another name")
    return name


def write(base: Path, record: Record) -> Logged:
    """Write `record` below `base`/results, the candidate's source beside it, and say where.

    Whole or not at all: the log comes last, and where it fails the copy goes too. Raises ToolError then.
    """
    folder = _folder(base, record.target)
    moment = datetime.datetime.fromisoformat(record.timestamp).astimezone(datetime.UTC)
    source = record.comparison.sources.get("candidate")
    for number in range(1, NAMES_TRIED + 1):
        stem = f"{moment:%Y%m%d-%H%M%S}" + (f"-{number}" if number > 1 else "")
        copy = None
        if source is not None and source.text is not None:
            copy = folder / f"{stem}.candidate{_suffix(source.name)}"
            if not files.write_new(copy, source.text.encode("utf-8", "surrogateescape")):
                continue
        named = replace(record, candidate_file=copy.name if copy else None)
        try:
            if files.write_new(folder / f"{stem}.json", as_json(named)):
                return Logged(f"{RESULTS}/{record.target}/{stem}.json", named)
        except ToolError:
            _drop(copy)
            raise
        _drop(copy)
    raise ToolError(f"{folder} already holds {NAMES_TRIED} records of this second", fix="record again in a second")


def read(base: Path) -> Shelf:
    """Everything under `base`/results; a file that cannot be read is named, never fatal."""
    results = base / RESULTS
    records: list[Logged] = []
    superseded: list[Superseded] = []
    skipped: list[Skipped] = []
    for path in _json_files(results):
        where = path.relative_to(base).as_posix()
        try:
            if path.parent == results:
                raise files.NotJson("a record lies in a folder of its target")
            plain = files.read_object(path)
            if path.parent.name.startswith(SUPERSEDED) and path.parent.parent != results:
                superseded.append(_old(where, path, plain))
            else:
                record = _record(plain, path.parent.name)
                superseded.extend(_outdated(where, path, plain, record))
                records.extend([] if _is_outdated(record) else [Logged(where, record)])
        except OSError as error:
            skipped.append(Skipped(where, f"it cannot be read: {error.strerror or error}"))
        except (ValueError, TypeError, OverflowError) as error:
            skipped.append(Skipped(where, str(error)[:300]))
    records.sort(key=lambda each: (each.record.timestamp, each.log))
    return Shelf(tuple(records), tuple(superseded), tuple(skipped))


def log_names(base: Path) -> frozenset[str]:
    """Which files `read` would look at now; cheap, for a writer that wants to know whether there are more by now."""
    return frozenset(path.as_posix() for path in _json_files(base / RESULTS))


def _folder(base: Path, target: str) -> Path:
    """The target's folder, below results/ even when a link stands there."""
    results = base / RESULTS
    folder = results / check_target(target)
    if folder.resolve().parent != results.resolve():
        raise ToolError(f"{folder} leads out of {results}", fix="remove the link, or give the target another name")
    return folder


def _json_files(results: Path) -> Iterator[Path]:
    """The JSON files that may be logs, in one order everywhere: of results/, of targets, of superseded- folders."""
    yield from _named_json(results)
    for folder in _folders(results):
        if folder.name in RESERVED_TARGETS or not TARGET_PATTERN.fullmatch(folder.name):
            continue
        yield from _named_json(folder)
        for older in _folders(folder):
            if older.name.startswith(SUPERSEDED):
                yield from _named_json(older)


def _named_json(folder: Path) -> list[Path]:
    return [path for path in _sorted(folder) if path.name.endswith(".json") and ".candidate." not in path.name]


def _folders(folder: Path) -> list[Path]:
    return [path for path in _sorted(folder) if path.is_dir()]


def _sorted(folder: Path) -> list[Path]:
    try:
        return sorted((path for path in folder.iterdir() if not path.name.startswith(".")), key=lambda path: path.name)
    except OSError:
        return []  # not there, or not for us to look into


def _record(plain: dict[str, Any], folder: str) -> Record:
    schema = plain.get("schema")
    if "comparison" not in plain or not isinstance(schema, int):
        old = " (an older log is listed when it lies in a folder superseded-<reason>)" if "verdict" in plain else ""
        raise files.NotJson(f"it is no log of ours{old}")
    if schema > SCHEMA:
        raise files.NotJson(f"a newer hotkernel wrote it (schema {schema})")
    record = from_plain(Record, plain)
    if record.target != folder:
        raise files.NotJson(f"it is a record of {record.target}, in the folder of {folder}")
    return record


def _is_outdated(record: Record) -> bool:
    """Whether another timing protocol measured it; a script's own time knows no protocol of ours."""
    return record.is_verified and record.comparison.protocol != PROTOCOL


def _outdated(where: str, path: Path, plain: dict[str, Any], record: Record) -> list[Superseded]:
    if not _is_outdated(record):
        return []
    return [replace(_old(where, path, plain), target=record.target, reason=f"protocol {record.comparison.protocol}")]


def _old(where: str, path: Path, plain: dict[str, Any]) -> Superseded:
    """What a log of any older form says, key by key: our own keep the comparison inside, the original's were flat."""
    inside = plain.get("comparison")
    found: dict[str, Any] = inside if isinstance(inside, dict) else plain
    return Superseded(
        log=where,
        target=path.parent.parent.name,
        reason=path.parent.name.removeprefix(SUPERSEDED),
        verdict=_text(found, "verdict") or None,
        speedup=_number(found, "speedup"),
        baseline_ms=_number(found.get("baseline"), "mean_ms"),
        candidate_ms=_number(found.get("candidate"), "mean_ms"),
        note=_text(plain, "note"),
        who=_text(plain, "who"),
        timestamp=_text(plain, "timestamp") or _text(found, "timestamp"),
    )


def _text(plain: dict[str, Any], name: str) -> str:
    value = plain.get(name)
    return value if isinstance(value, str) else ""


def _number(plain: Any, name: str) -> float | None:
    value = plain.get(name) if isinstance(plain, dict) else None
    return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None  # raises if huge


def _suffix(name: str) -> str:
    suffix = Path(name).suffix
    return suffix if _SUFFIX.fullmatch(suffix) else ".txt"


def _drop(copy: Path | None) -> None:
    if copy is not None:
        copy.unlink(missing_ok=True)
