"""Finds the sources of a record's two sides and says how they differ; what is not as it was measured is not used."""

from __future__ import annotations

import difflib
import hashlib
import re
import unicodedata
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from hotkernel.schema.comparison import Comparison
from hotkernel.schema.record import Record, SourceChange

FILE_LIMIT_BYTES = 200_000  # of a baseline's file that is kept or shown
FILES_LIMIT = 8
CONTEXT_LINES = 3


def baseline_files(base: Path, found: Comparison) -> dict[str, str]:
    """The files that the baseline loaded, by their pinned paths, where they are still what was measured."""
    kept: dict[str, str] = {}
    for name, sha256 in found.pins.items():
        try:
            path = base / name
            if len(kept) == FILES_LIMIT or path.stat().st_size > FILE_LIMIT_BYTES:
                continue
            content = path.read_bytes()
        except (OSError, ValueError):
            continue
        if hashlib.sha256(content).hexdigest() == sha256:
            kept[name] = content.decode("utf-8", "replace")
    return kept


def baseline_text(base: Path, record: Record) -> str | None:
    """What the candidate replaces: the user's own files behind the baseline, else a function in the baseline's own file.

    None where the files are not at hand as they were, or where there are none: the baseline is a library's function.
    """
    own = _own_files(base, record)
    if len(own) == 1:
        name, text = next(iter(own.items()))
        return text if name != _contract(record) or _defines_a_function(text) else None
    return "\n".join(f"# {name}\n{text}" for name, text in own.items()) or None


def library_function(base: Path, record: Record) -> str | None:
    """The line that names it, where the baseline is a library's function and has no source of the user's."""
    text = _own_files(base, record).get(_contract(record))
    if text is None or _defines_a_function(text):
        return None
    return next((line.strip() for line in text.splitlines() if re.search(r"\bbaseline\s*=|\bas baseline\b", line)), None)


def _own_files(base: Path, record: Record) -> Mapping[str, str]:
    """By name: what the baseline loads beside its contract, else the contract itself."""
    files: Mapping[str, str] = record.baseline_files or baseline_files(base, record.comparison)
    named = {PurePosixPath(name.replace("\\", "/")).name: text for name, text in files.items()}
    return {name: text for name, text in named.items() if name != _contract(record)} or named


def _contract(record: Record) -> str:
    source = record.comparison.sources.get("baseline")
    return source.name if source else ""


def _defines_a_function(text: str) -> bool:
    return re.search(r"^\s*(def|class) ", text, re.MULTILINE) is not None


def candidate_text(record: Record) -> str | None:
    """The candidate's source, as it was measured."""
    source = record.comparison.sources.get("candidate")
    return source.text if source else None


def change(before: str, old: str | None, after: str, new: str | None, *, limit: int) -> SourceChange:
    """How `new` differs from `old`, as a unified diff of at most `limit` characters; what each is called comes first."""
    if old is None or new is None:
        missing = before if old is None else after
        return SourceChange(before, after, None, 0, 0, f"the source of {missing} is not at hand as it was measured")
    lines = list(difflib.unified_diff(old.splitlines(), new.splitlines(), before, after, lineterm="", n=CONTEXT_LINES))
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    text = visible("\n".join(lines))
    note = "" if lines else "the two are the same, line by line"
    if len(text) > limit:
        text, note = text[:limit].rpartition("\n")[0], f"cut after {limit} characters"
    return SourceChange(before, after, text, added, removed, note)


def visible(text: str) -> str:
    """`text` with what cannot be seen written as its number: a mark that turns the order of letters, say."""
    return "".join(f"⟨U+{ord(sign):04X}⟩" if sign not in "\n\t" and unicodedata.category(sign) in ("Cc", "Cf", "Cs", "Co")
                   else sign for sign in text.replace("\r\n", "\n"))
