"""The tools history and show: what was tried and what came of it, from the records alone; measures and writes nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from hotkernel.errors import ToolError
from hotkernel.records import entries, markdown, sources, store
from hotkernel.records.store import Shelf
from hotkernel.schema.record import Decision, Figures, HistoryResult, Logged, ShowResult
from hotkernel.schema.verdict import Measurement
from hotkernel.session import Session

HISTORY_LIMIT = 50
SUPERSEDED_LIMIT = 20
TEXT_LIMIT = 9_000  # characters of a source or a diff: a page
BASELINE = "baseline"


def history(
    session: Session,
    target: Annotated[str, "one target's name; empty: all"] = "",
    cwd: Annotated[str, "folder of results/"] = "",
) -> HistoryResult:
    """What was tried so far and what came of it, the newest first: read it before trying the same again."""
    if target:
        store.check_target(target)
    base = session.folder(cwd)
    shelf = store.read(base)
    mine = [each for each in shelf.records if target in ("", each.record.target)]
    decisions = [entries.advice_of(shelf, each).decision for each in mine]
    apart = [each for each in shelf.superseded if target in ("", each.target)]
    won = sum(each is Decision.KEEP for each in decisions)
    return HistoryResult(
        entries=tuple(entries.entry(shelf, each) for each in reversed(mine[-HISTORY_LIMIT:])),
        total=len(mine),
        truncated=len(mine) > HISTORY_LIMIT,
        targets=tuple(sorted({each.record.target for each in shelf.records})),
        won=won,
        lost=len(mine) - won,
        superseded=tuple(map(entries.superseded, reversed(apart[-SUPERSEDED_LIMIT:]))),
        superseded_total=len(apart),
        skipped=entries.skipped(shelf),
        skipped_total=len(shelf.skipped),
        warnings=() if mine or not target else (f"nothing is recorded of {target} under {base / store.RESULTS}",),
    )


def show(
    session: Session,
    run: Annotated[str, "a log or its id, as history gives them"],
    against: Annotated[str, "another, or `baseline`: the diff from its source to this one's"] = "",
    cwd: Annotated[str, "folder of results/"] = "",
) -> ShowResult:
    """One record: what was tried, what came of it, its source; or how it differs from another."""
    base = session.folder(cwd)
    shelf = store.read(base)
    logged = find(shelf, run, base)
    other = find(shelf, against, base) if against not in ("", BASELINE) else None
    kept, found, text = logged.record, logged.record.comparison, sources.candidate_text(logged.record)
    change = None
    if other is not None:
        change = sources.change(other.log, sources.candidate_text(other.record), logged.log, text, limit=TEXT_LIMIT)
    elif against:
        change = sources.change(BASELINE, sources.baseline_text(base, kept), logged.log, text, limit=TEXT_LIMIT)
        if change.text is None and (library := sources.library_function(base, kept)):
            change = replace(change, note=f"the baseline is a library's function: {library}")
    return ShowResult(
        entry=entries.entry(shelf, logged),
        advice=entries.sentence(entries.advice_of(shelf, logged)),
        mean_ms={BASELINE: _mean(found.baseline), "candidate": _mean(found.candidate), "incumbent": _mean(found.incumbent)},
        ceiling_share_pct=found.ceiling_share_pct,
        why=_why(logged),
        against=entries.entry(shelf, other) if other else None,
        figures=_figures(other, logged) if other else (),
        text=change.text if change else sources.visible(text[:TEXT_LIMIT]) if text else None,
        added=change.added if change else None,
        removed=change.removed if change else None,
        note=change.note if change else "",
        confirmations=tuple(f"{each.id}: {each.verdict}, {each.reason}" for each in logged.confirmations),
        warnings=tuple(_warnings(logged, other, None if change else text)),
    )


def _why(logged: Logged) -> str | None:
    """What the profiles say, with the day on which a later reason was added."""
    if logged.why is None:
        return None
    added = f" (added {logged.later_reason.timestamp[:10]})" if logged.later_reason and not logged.record.why else ""
    return markdown.plain(logged.why.why, 600) + added


def find(shelf: Shelf, name: str, base: Path) -> Logged:
    """The record that is called so; a target's name means its newest. Raises ToolError that says what there is."""
    logged = shelf.called(name)
    if logged is None:
        logged = next((each for each in reversed(shelf.records) if each.record.target == name), None)
    if logged is None:
        known = ", ".join(each.log for each in shelf.records[-3:])
        raise ToolError(f"no record is called {markdown.plain(name, 80)!r} under {base / store.RESULTS}",
                        fix=f"give a log or an id; the newest are {known}" if known else "record a verdict first, or give cwd")
    return logged


def _figures(before: Logged, after: Logged) -> tuple[Figures, ...]:
    """What the two logs say, side by side."""
    one, other = before.record.comparison, after.record.comparison
    pairs = {
        "target": (before.record.target, after.record.target),
        "gpu": (one.gpu or one.device, other.gpu or other.device),
        "verdict": (one.verdict.value, other.verdict.value),
        "baseline mean_ms": (_mean(one.baseline), _mean(other.baseline)),
        "candidate mean_ms": (_mean(one.candidate), _mean(other.candidate)),
        "speedup": (one.speedup, other.speedup),
        "ceiling_share_pct": (one.ceiling_share_pct, other.ceiling_share_pct),
        "note": (markdown.plain(before.record.note, 200), markdown.plain(after.record.note, 200)),
    }
    return tuple(Figures(name, *values) for name, values in pairs.items())


def _warnings(logged: Logged, other: Logged | None, text: str | None) -> list[str]:
    found = []
    if text is not None and len(text) > TEXT_LIMIT:
        found.append(f"the source is longer: {entries.copy_path(logged) or logged.log} has all of it")
    if other is not None:
        one, two = other.record.comparison, logged.record.comparison
        if (one.gpu, one.device) != (two.gpu, two.device):
            found.append("the two ran on different machines: their times say little of each other")
        elif one.id != two.incumbent_id:
            found.append("the two were measured at two times: give the best as incumbent for a real comparison")
    return found


def _mean(measured: Measurement | None) -> float | None:
    return measured.mean_ms if measured else None
