"""Tells a record in short, and what was to be done after it; reads no file."""

from __future__ import annotations

from pathlib import PurePosixPath

from hotkernel.records import advice, markdown
from hotkernel.records.store import Shelf
from hotkernel.schema.record import Advice, HistoryEntry, Logged, Skipped, Superseded

WHO_LIMIT = 80
NOTE_LIMIT = 300
SKIPPED_LIMIT = 20


def entry(shelf: Shelf, logged: Logged) -> HistoryEntry:
    """One try: what was changed and what came of it."""
    kept, found = logged.record, logged.record.comparison
    return HistoryEntry(
        log=logged.log,
        target=kept.target,
        timestamp=kept.timestamp,
        verdict=found.verdict,
        rule=found.rule,
        speedup=found.speedup,
        interval_99=found.interval_99,
        decision=advice_of(shelf, logged).decision,
        note=markdown.plain(kept.note, NOTE_LIMIT),
        who=markdown.plain(kept.who, WHO_LIMIT),
        gpu=found.gpu,
        assurance=found.assurance,
        id=found.id,
        candidate_copy=copy_path(logged),
        reason=markdown.plain(found.reason, NOTE_LIMIT),
        confirmations=len(logged.confirmations),
        confirmed=logged.confirmed,
    )


def advice_of(shelf: Shelf, logged: Logged) -> Advice:
    """What was to be done when this record was made: what came later does not change it."""
    earlier = []
    for each in shelf.records:
        if each.log == logged.log:
            break
        earlier.append(each.record)
    return advice.advise(earlier, logged.record)


def sentence(advised: Advice) -> str:
    """Advice as one line."""
    words = f"{advised.decision}: {advised.reason}"
    return f"{words}. Stop: {advised.stop_reason}" if advised.stop_reason else words


def copy_path(logged: Logged) -> str | None:
    """Where the candidate's copy lies, as a path below the folder of the board."""
    name = logged.record.candidate_file
    return str(PurePosixPath(logged.log).with_name(PurePosixPath(name.replace("\\", "/")).name)) if name else None


def skipped(shelf: Shelf) -> tuple[Skipped, ...]:
    """What lies under results/ and is no record, the first few, harmless to print."""
    return tuple(Skipped(markdown.plain(each.path, 200), markdown.plain(each.reason, NOTE_LIMIT))
                 for each in shelf.skipped[:SKIPPED_LIMIT])


def superseded(each: Superseded) -> Superseded:
    """One that counts no longer, harmless to print."""
    words = {name: markdown.plain(getattr(each, name) or "", NOTE_LIMIT) for name in ("reason", "note", "who", "timestamp")}
    return Superseded(each.log, each.target, verdict=markdown.plain(each.verdict or "", 20) or None, speedup=each.speedup,
                      baseline_ms=each.baseline_ms, candidate_ms=each.candidate_ms, **words)
