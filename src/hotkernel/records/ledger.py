"""Remembers every pair ever measured of a candidate, so that asking again goes on with one test; decides nothing."""

from __future__ import annotations

import ast
import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.records import files
from hotkernel.records.comparisons import as_json
from hotkernel.schema.plain import from_plain
from hotkernel.schema.verdict import Pair

SCHEMA = 1


@dataclass(frozen=True)
class Key:
    """What a test is about: a target (baseline, contract, card) and a candidate, both as SHA-256."""

    target: str
    candidate: str


@dataclass(frozen=True)
class Entry:
    """One candidate's page: the pairs of all its verifies in order, and which verifies those were."""

    pairs: tuple[Pair, ...] = ()
    comparisons: tuple[str, ...] = ()
    schema: int = SCHEMA


def key_of(*, baseline_sha256: str, contract_sha256: str, card: str, candidate: bytes | Mapping[str, bytes],
           case: str = "") -> Key:
    """The key of one candidate on one target; `card` is the GPU's uuid, or "cpu"; `case` is which of its several.

    `candidate` is the file's content, or all of its files by name. Python counts by its syntax tree, so a changed
    comment, docstring, layout or statement that does nothing is no new try; anything else by its bytes.
    """
    named = {"candidate.py": candidate} if isinstance(candidate, bytes) else candidate
    parts = {name: _sense(content) for name, content in named.items()}
    whole = [part for item in sorted(parts.items()) for part in item]
    if len(parts) == 1:
        whole = whole[1:]  # a single file is the same whatever it is called
    of_case = (case,) if case else ()
    return Key(_digest("target", baseline_sha256, contract_sha256, card, *of_case), _digest("candidate", *whole))


def earlier(state: Path, key: Key) -> tuple[Pair, ...]:
    """The pairs of every earlier verify of this key, in order. Raises ToolError when its page is damaged."""
    return _read(_page(state, key)).pairs


def append(state: Path, key: Key, pairs: Sequence[Pair], comparison_id: str = "") -> int:
    """Add a verify's pairs (none, where none was measured: it still is a try) and return the target's count of tries.

    It may be called again in the same verify, after each look, so that an abandoned verify leaves what it saw.
    Raises ToolError where the disk refuses; the page is then as before.
    """
    page = _page(state, key)
    with files.locked(page.parent / ".lock"):
        known = _read(page)
        ids = (comparison_id,) if comparison_id and comparison_id not in known.comparisons else ()
        entry = Entry((*known.pairs, *pairs), (*known.comparisons, *ids))
        files.write_whole(page, as_json(entry))
    return tries(state, key)


def tries(state: Path, key: Key) -> int:
    """How many different candidates were tried on this key's target so far."""
    return sum(1 for page in _page(state, key).parent.glob("*.json") if not page.name.startswith("."))


def normalised(source: bytes) -> str | None:
    """The sense of a Python source: its syntax tree without what does nothing; None where it is no Python.

    Written by a walk of our own, as `ast.dump` changes from one Python to the next and a key must not.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # an invalid escape in somebody's string is not ours to report
            return json.dumps(_shape(ast.parse(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _sense(content: bytes) -> str:
    tree = normalised(content)
    return _digest("bytes", hashlib.sha256(content).hexdigest()) if tree is None else _digest("tree", tree)


def _shape(node: Any) -> Any:
    """A syntax tree as nested lists: types, names and constants; no places, no empty fields."""
    if isinstance(node, ast.AST):
        return [type(node).__name__, *_fields(node)]
    if isinstance(node, list):
        return [_shape(item) for item in node if not _does_nothing(item)]
    return f"{type(node).__name__} {node!r}"  # 1, 1.0 and True are three things


def _fields(node: ast.AST) -> Iterator[Any]:
    for name, value in ast.iter_fields(node):
        shape = None if value is None else _shape(value)
        if shape is not None and shape != []:
            yield [name, shape]


def _does_nothing(statement: Any) -> bool:
    """A docstring, `pass`, `...` or another constant that stands alone: the compiler drops it."""
    return isinstance(statement, ast.Pass) or (
        isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    )


def _digest(*parts: str) -> str:
    """SHA-256 over the parts, each with its length, so that no two lists of parts look alike."""
    whole = hashlib.sha256()
    for part in parts:
        content = part.encode("utf-8", "surrogatepass")
        whole.update(len(content).to_bytes(8, "big") + content)
    return whole.hexdigest()


def _page(state: Path, key: Key) -> Path:
    return state / "ledger" / key.target[:32] / f"{key.candidate[:32]}.json"


def _read(page: Path) -> Entry:
    if not page.exists():
        return Entry()
    try:
        entry = from_plain(Entry, files.read_object(page))
        if entry.schema > SCHEMA:
            raise files.NotJson(f"a newer hotkernel wrote it (schema {entry.schema})")
        return entry
    except (files.NotJson, ValueError, TypeError, OSError) as error:
        # Starting afresh in silence would hand a candidate as many first tries as it can damage files.
        raise ToolError(f"the ledger's page {page} cannot be read: {error}",
                        fix="delete it, and this candidate's test begins anew") from None
