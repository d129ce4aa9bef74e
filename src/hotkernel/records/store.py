"""Keeps the logs under results/: writes one whole and never over another, reads them all, and names what is none."""

from __future__ import annotations

import datetime
import functools
import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.records import confirmations, files, later_reasons
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
SUPERSEDED = "superseded"  # and a reason: a folder of a target with logs of an older protocol
PARSED_KEPT = 256  # logs, by what is in them: who records one after the other reads all of them each time, 10 ms a log
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

    def called(self, name: str) -> Logged | None:
        """The record that somebody calls so: by its comparison's id, its log's path, or the end of that path."""
        wanted = name.replace("\\", "/").removeprefix("./")
        return self.of(name) or next((each for each in self.records if f"/{each.log}".endswith(f"/{wanted}")
                                      or f"/{wanted}".endswith(f"/{each.log}")), None)


def check_target(name: str) -> str:
    """`name`, if a target's folder can be called so. Raises ToolError that says what is wrong."""
    if not TARGET_PATTERN.fullmatch(name) or _DEVICE_NAMES.fullmatch(name):
        raise ToolError(f"{name[:80]!r} cannot be a target's name",
                        fix="use 1 to 64 of A-Z a-z 0-9 _ - and single dots, beginning with a letter, a digit or _")
    if name in RESERVED_TARGETS or name.startswith(SUPERSEDED):
        raise ToolError(f"results/{name} is kept for something else", fix="give the target another name")
    return name


def locked(state: Path, base: Path) -> AbstractContextManager[None]:
    """The lock of whoever writes below `base`/results or draws its board."""
    return files.locked(state / "locks" / f"results-{hashlib.sha256(os.fsencode(base)).hexdigest()[:16]}.lock")


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
    found: list[Logged | Superseded | Skipped] = []
    for path in _json_files(results):
        where = path.relative_to(base).as_posix()
        try:
            if path.parent == results:
                raise files.NotJson("a record lies in a folder of its target")
            found.append(_log(where, files.read_plain(path)))
        except OSError as error:
            found.append(Skipped(where, f"it cannot be read: {error.strerror or error}"))
        except (ValueError, TypeError, OverflowError) as error:
            found.append(Skipped(where, str(error)[:300]))
    records = []
    plain = [each for each in found if isinstance(each, Logged)]
    beside = {folder: confirmations.in_folder(base / folder) for folder in {_parent(each) for each in plain}}
    for each in plain:
        kept, broken = confirmations.read(base, each, beside[_parent(each)].get(Path(each.log).stem, ()))
        reason, unfit = later_reasons.read(base, each)
        records.append(replace(each, confirmations=kept, later_reason=reason))
        found += (*broken, *unfit)
    return Shelf(
        tuple(sorted(records, key=lambda each: (each.record.timestamp, each.log))),
        tuple(each for each in found if isinstance(each, Superseded)),
        tuple(each for each in found if isinstance(each, Skipped)),
    )


def _parent(logged: Logged) -> Path:
    return Path(logged.log).parent


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
    return [path for path in _sorted(folder) if path.name.endswith(".json")
            and not path.name.endswith(later_reasons.ENDING)
            and ".candidate." not in path.name and confirmations.MARK not in path.name]


def _folders(folder: Path) -> list[Path]:
    return [path for path in _sorted(folder) if path.is_dir()]


def _sorted(folder: Path) -> list[Path]:
    try:
        return sorted((path for path in folder.iterdir() if not path.name.startswith(".")), key=lambda path: path.name)
    except OSError:
        return []  # not there, or not for us to look into


@functools.lru_cache(PARSED_KEPT)
def _log(where: str, content: bytes) -> Logged | Superseded:
    """A record, or what another timing protocol measured, in its folder or wherever it was left."""
    path, plain = PurePosixPath(where), files.parse_object(content)
    verify = plain.get("verify")
    if len(path.parts) > 3:
        return _old(where, path, plain)
    if isinstance(verify, dict) and {"verdict", "baseline", "candidate"} <= verify.keys():
        return _old(where, path, plain)
    record = _record(plain, path.parent.name)
    if record.is_verified and record.comparison.protocol != PROTOCOL:  # a script's own time knows no protocol of ours
        return _old(where, path, plain)
    return Logged(where, record)


def _record(plain: dict[str, Any], folder: str) -> Record:
    schema = plain.get("schema")
    if "comparison" not in plain or not isinstance(schema, int):
        raise files.NotJson("it is no log of ours")
    if schema > SCHEMA:
        raise files.NotJson(f"a newer hotkernel wrote it (schema {schema})")
    record = from_plain(Record, plain)
    if record.target != folder:
        raise files.NotJson(f"it is a record of {record.target}, in the folder of {folder}")
    return record


def _old(where: str, path: PurePosixPath, plain: dict[str, Any]) -> Superseded:
    """What a log of any older form says, key by key: ours hold a `comparison`, the original's a `verify`."""
    inside = plain.get("comparison", plain.get("verify"))
    found: dict[str, Any] = inside if isinstance(inside, dict) else plain
    in_folder = path.parent.name.startswith(SUPERSEDED)
    return Superseded(
        log=where,
        target=(path.parent.parent if in_folder else path.parent).name,
        reason=path.parent.name.removeprefix(SUPERSEDED).strip("-_ ") if in_folder else f"protocol {_protocol(found)}",
        verdict=_text(found, "verdict") or None,
        speedup=_number(found, "speedup"),
        baseline_ms=_number(found.get("baseline"), "mean_ms"),
        candidate_ms=_number(found.get("candidate"), "mean_ms"),
        note=_text(plain, "note"),
        who=_text(plain, "who"),
        timestamp=_text(found, "timestamp") or _text(plain, "timestamp"),
    )


def _protocol(found: dict[str, Any]) -> str:
    """The timing protocol that an older result names; the first had no number."""
    contract = found.get("contract")
    number = found.get("protocol", contract.get("protocol") if isinstance(contract, dict) else None)
    return str(number)[:20] if isinstance(number, (int, str)) else "unknown"


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
