"""The nouns of the report's page: what stands in each place, in words that need no more thought; plain texts, not HTML."""

from __future__ import annotations

from dataclasses import dataclass

from hotkernel.schema.report import Attempt

Pairs = tuple[tuple[str, str], ...]  # what, and what is said of it


@dataclass(frozen=True)
class Row:
    """One attempt."""

    number: int
    when: str
    verdict: str
    meaning: str  # of the verdict, for who sees the word for the first time
    speedup: str
    baseline: str
    candidate: str
    share: str
    note: str
    who: str
    decision: str
    reason: str
    confirmed: str
    log: str
    details: Pairs


@dataclass(frozen=True)
class DiffLine:
    """One line of a diff: `added`, `removed`, `same`, or `gap` for lines left out."""

    kind: str
    old: int | None
    new: int | None
    text: str


@dataclass(frozen=True)
class Diff:
    """A source against the baseline's; no lines and a note where one of them is not at hand."""

    title: str
    added: int
    removed: int
    lines: tuple[DiffLine, ...]
    note: str = ""


@dataclass(frozen=True)
class Why:
    """What profiles of before and after say."""

    sentence: str
    rows: tuple[tuple[str, str, str, str], ...]  # figure, before, after, change


@dataclass(frozen=True)
class Section:
    """One target on one card."""

    key: str  # of its place on the page
    target: str
    card: str
    is_verified: bool
    headline: str
    counts: str
    best: Row | None
    rows: tuple[Row, ...]
    tries: tuple[Attempt, ...]
    diff: Diff | None
    why: Why | None
    machine: Pairs


@dataclass(frozen=True)
class Picture:
    """A plot: its SVG, what it shows, and what can be read off it in words."""

    svg: str
    title: str
    caption: str


@dataclass(frozen=True)
class OldRow:
    """A log that counts no longer."""

    target: str
    reason: str
    verdict: str
    note: str
    when: str
    log: str


@dataclass(frozen=True)
class Page:
    """The whole report."""

    title: str
    is_single: bool  # one record, not all
    made: str
    version: str
    folder: str
    sections: tuple[Section, ...]
    superseded: tuple[OldRow, ...]
    skipped: Pairs
    warnings: tuple[str, ...] = ()
