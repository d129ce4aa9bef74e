"""The nouns of the report: an attempt as a plot places it, and the page that was written."""

from __future__ import annotations

from dataclasses import dataclass

from hotkernel.schema.verdict import VerdictKind

SCHEMA = 1


@dataclass(frozen=True)
class Attempt:
    """One try at a target: its number in time, and what came of it."""

    number: int  # from 1
    verdict: VerdictKind
    speedup: float | None
    interval: tuple[float, ...] | None  # 99 %
    is_kept: bool  # it became the best so far
    gbps: float | None = None  # the bytes that a call must move, by its time


@dataclass(frozen=True)
class ReportResult:
    """The page that was written, and what is on it."""

    path: str
    bytes: int
    targets: tuple[str, ...]
    attempts: int
    pictures: tuple[str, ...] = ()  # PNG files beside it
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA
