"""The nouns of an audit: what is wrong with a log, and whether a row held when it was verified again."""

from __future__ import annotations

from dataclasses import dataclass

from hotkernel.schema.record import Skipped
from hotkernel.schema.verdict import VerdictKind

SCHEMA = 1


@dataclass(frozen=True)
class AuditedLog:
    """One log: what it says, what its evidence proves, and every way in which they differ."""

    log: str
    target: str
    id: str
    verdict: VerdictKind
    recomputed: VerdictKind | None  # null where there is no evidence to recompute from: scripts that timed themselves
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class VerifiedAgain:
    """A row measured once more from its kept source; nothing of it enters the row."""

    log: str
    id: str  # of the fresh comparison
    holds: bool
    said: str  # in a sentence
    verdict_then: VerdictKind
    verdict_now: VerdictKind
    speedup_then: float | None
    speedup_now: float | None
    interval_99_now: tuple[float, ...] | None


@dataclass(frozen=True)
class AuditResult:
    """Every log that is not what its evidence proves, every row of the board that no log says, and the fresh verify."""

    ok: bool
    checked: int
    recomputed: int  # of them, those whose verdict could be worked out from saved evidence
    faulty: tuple[AuditedLog, ...]  # the logs with a problem
    board_problems: tuple[str, ...]
    again: VerifiedAgain | None = None
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA
