"""Saves what verify found under its id, and finds it again; judges nothing."""

from __future__ import annotations

import datetime
import json
import re
import secrets
import string
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.records import files
from hotkernel.schema.comparison import SCHEMA, Comparison
from hotkernel.schema.plain import from_plain, to_plain

ID_PATTERN = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NEW_ID = re.compile(r"\d{8}-\d{6}-[a-z0-9]{8}")
LISTED = 5  # of the newest ids, in the answer to an unknown one
_LETTERS = string.ascii_lowercase + string.digits


def new_id(now: datetime.datetime | None = None) -> str:
    """A new comparison's id: the time in UTC and eight random characters, as in 20261130-135214-a1b2c3d4."""
    moment = (now or datetime.datetime.now(datetime.UTC)).astimezone(datetime.UTC)
    return f"{moment:%Y%m%d-%H%M%S}-" + "".join(secrets.choice(_LETTERS) for _ in range(8))


def save(state: Path, comparison: Comparison) -> Path:
    """Keep `comparison` under its id and return the file; the same one again changes nothing.

    Raises ToolError where the disk refuses, or where another one has this id.
    """
    path = _path(state, comparison.id)
    if not files.write_new(path, as_json(comparison)) and load(state, comparison.id) != comparison:
        raise ToolError(f"another comparison is saved as {comparison.id}", fix="give this one an id of its own")
    return path


def load(state: Path, comparison_id: str) -> Comparison:
    """The comparison saved under this id. Raises ToolError that lists the newest ones when there is none."""
    path = _path(state, comparison_id)
    try:
        plain = files.read_object(path)
        if isinstance(plain.get("schema"), int) and plain["schema"] > SCHEMA:
            raise ToolError(f"comparison {comparison_id} was saved by a newer hotkernel (schema {plain['schema']})",
                            fix="update this hotkernel")
        comparison = from_plain(Comparison, plain)
    except (files.NotJson, ValueError, TypeError, KeyError) as error:
        if not path.exists():
            raise _unknown(state, comparison_id) from None
        raise ToolError(f"the saved comparison {comparison_id} cannot be read: {error}",
                        fix=f"verify again; {path} is damaged") from None
    except OSError as error:
        raise ToolError(f"the saved comparison {comparison_id} cannot be read: {error.strerror or error}",
                        fix=f"give read permission on {path}") from None
    if comparison.id != comparison_id:
        raise ToolError(f"{path} says that it is {comparison.id[:64]}", fix="verify again; somebody renamed the file")
    return comparison


def is_id(text: str) -> bool:
    """Whether `text` has the form of the ids that verify gives."""
    return _NEW_ID.fullmatch(text) is not None


def newest(state: Path, limit: int = LISTED) -> tuple[str, ...]:
    """The ids of the comparisons saved last, the newest first."""
    try:
        names = [path.stem for path in (state / "comparisons").glob("*.json") if ID_PATTERN.fullmatch(path.stem)]
    except OSError:
        return ()
    return tuple(sorted(names, reverse=True)[:limit])  # an id begins with its time


def as_json(value: object) -> str:
    """One of our nouns as a file's text: indented for people and diffs, ASCII so that any source's bytes survive."""
    return json.dumps(to_plain(value), indent=1, allow_nan=False) + "\n"


def check_id(comparison_id: str) -> str:
    """`comparison_id`, if it can be one. Raises ToolError otherwise."""
    if not ID_PATTERN.fullmatch(comparison_id):
        raise ToolError(f"no comparison has an id like {comparison_id[:80]!r}",
                        fix="give the id that verify answered, such as 20261130-135214-a1b2c3d4")
    return comparison_id


def _path(state: Path, comparison_id: str) -> Path:
    return state / "comparisons" / f"{check_id(comparison_id)}.json"


def _unknown(state: Path, comparison_id: str) -> ToolError:
    known = newest(state)
    listed = f"the newest are {', '.join(known)}" if known else "none is saved yet"
    return ToolError(f"no comparison {comparison_id} is saved in {state}",
                     fix=f"give the id that verify answered; {listed}")
