"""The tools record and history: keep what verify found, draw the board, say what to do next; measures nothing."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
from pathlib import Path
from typing import Annotated, Any

from hotkernel.errors import ToolError
from hotkernel.records import advice, comparisons, files, leaderboard, markdown, store
from hotkernel.records.state import state_dir
from hotkernel.records.store import Shelf
from hotkernel.schema.comparison import PROTOCOL, Comparison
from hotkernel.schema.record import (
    Advice,
    Decision,
    HistoryEntry,
    HistoryResult,
    Logged,
    Record,
    RecordResult,
    Skipped,
)
from hotkernel.schema.verdict import VerdictKind
from hotkernel.session import Session

NOTE_LIMIT = 300  # characters: what changed, in one line
WHO_LIMIT = 80
HISTORY_LIMIT = 50
SKIPPED_LIMIT = 20
GIT_TIMEOUT_S = 10.0
PREVIOUS_BEST_SCOPE = "the same target, card, baseline and who"
ALL_TIME_BEST_NOTE = "of anybody, and measured at another time: give it as incumbent for a real comparison"


def record(
    session: Session,
    target: Annotated[str, "name of the target: its folder under results/"],
    verify_result: Annotated[dict[str, Any] | str, "what verify answered, or its id; the numbers are verify's own"],
    note: Annotated[str, "what changed, in one line"] = "",
    who: Annotated[str, "who honestly made the change"] = "",
    cwd: Annotated[str, "folder that holds results/ and LEADERBOARD.md (default: the working root)"] = "",
) -> RecordResult:
    """Write a verify's result to results/<target>/, win or lose, redraw LEADERBOARD.md, and say keep, equal or revert.

    The same result again adds nothing and answers the same.
    """
    store.check_target(target)
    base = _base(session, cwd)
    state = state_dir(session.environment)
    given = _given(verify_result)
    comparison = comparisons.load(state, _id_of(given))
    if not comparison.self_reported and comparison.protocol != PROTOCOL:
        raise ToolError(f"{comparison.id} was measured by protocol {comparison.protocol}, and this is {PROTOCOL}",
                        fix="verify again")
    if comparison.case:
        count = len(comparison.case_names)
        raise ToolError(f"{comparison.id} is of the case {comparison.case!r} alone, and the target has {count}",
                        fix="record the id that verify answered: that of all cases together")
    commit = _commit(session, base)
    with files.locked(state / "locks" / f"results-{hashlib.sha256(os.fsencode(base)).hexdigest()[:16]}.lock"):
        logged = store.read(base).of(comparison.id)
        existed = logged is not None
        if logged is None:
            now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
            what, by = markdown.plain(note, NOTE_LIMIT), markdown.plain(who, WHO_LIMIT)
            logged = store.write(base, Record(target, now, comparison, what, by, commit))
        board, shelf = _redraw(base, logged)
    return _result(base, board, shelf, logged, existed, _warnings(given, comparison, target, logged, existed))


def history(
    session: Session,
    target: Annotated[str, "one target's name; empty: all"] = "",
    cwd: Annotated[str, "folder that holds results/ (default: the working root)"] = "",
) -> HistoryResult:
    """What was tried so far and what came of it, the newest last: read it before trying the same again."""
    if target:
        store.check_target(target)
    base = _base(session, cwd)
    shelf = store.read(base)
    entries = [each for each in shelf.records if target in ("", each.record.target)]
    return HistoryResult(
        entries=tuple(_entry(shelf, each) for each in entries[-HISTORY_LIMIT:]),
        total=len(entries),
        truncated=len(entries) > HISTORY_LIMIT,
        targets=tuple(sorted({each.record.target for each in shelf.records})),
        skipped=_skipped(shelf),
        skipped_total=len(shelf.skipped),
        warnings=() if entries or not target else (f"nothing is recorded of {target} under {base / store.RESULTS}",),
    )


def _base(session: Session, cwd: str) -> Path:
    """The folder that holds results/ and the board."""
    base = session.path(cwd) if cwd else session.root.resolve()
    if not base.is_dir():
        raise ToolError(f"no such folder: {base}", fix="check cwd")
    return base


def _given(verify_result: dict[str, Any] | str) -> dict[str, Any]:
    """The caller's result as a dict; a bare id is one with nothing else in it."""
    if isinstance(verify_result, dict):
        return verify_result
    text = verify_result.strip()
    if not text.startswith("{"):
        return {"id": text}
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ToolError(f"verify_result is no JSON: {error}"[:300],
                        fix="give what verify answered, or only its id") from None
    return value if isinstance(value, dict) else {}


def _id_of(given: dict[str, Any]) -> str:
    found = given.get("id")
    if isinstance(found, str) and found:
        return comparisons.check_id(found)
    running = given.get("status") == "running" or "job" in given
    raise ToolError("verify_result has no id", fix="wait for the job, and give what it answers" if running
                    else "give what verify answered, or its id; a result of an older hotkernel has none: verify again")


def _commit(session: Session, base: Path) -> str | None:
    """The checkout's commit; null where this is none, or git is not here."""
    try:
        done = session.job.run(["git", "rev-parse", "--verify", "--quiet", "HEAD"], timeout_s=GIT_TIMEOUT_S, cwd=base,
                               env=session.environment)
    except ToolError:
        return None
    commit = done.stdout.strip()
    return commit[:40] if done.ok and commit else None


def _redraw(base: Path, logged: Logged) -> tuple[Path, Shelf]:
    try:
        return leaderboard.rebuild(base)
    except ToolError as error:
        raise ToolError(f"the record is kept as {logged.log}, but the board is not drawn: {error.message}",
                        fix=f"{error.fix}; then record the same id again", detail=error.detail) from None


def _advice(shelf: Shelf, logged: Logged) -> Advice:
    """What was to be done when this record was made: what came later does not change it."""
    earlier = []
    for each in shelf.records:
        if each.log == logged.log:
            break
        earlier.append(each.record)
    return advice.advise(earlier, logged.record)


def _result(base: Path, board: Path, shelf: Shelf, logged: Logged, existed: bool,
            warnings: tuple[str, ...]) -> RecordResult:
    found, advised = logged.record.comparison, _advice(shelf, logged)
    best, all_time = shelf.of(advised.best_id or ""), advice.all_time_best(shelf.records, logged)
    return RecordResult(
        log=str(base / logged.log),
        leaderboard=str(board),
        row=leaderboard.row(logged),
        keep=advised.keep,
        advice=_sentence(advised),
        decision=advised.decision,
        basis=advised.basis,
        id=found.id,
        target=logged.record.target,
        verdict=found.verdict,
        speedup=found.speedup,
        best_id=advised.best_id,
        best_speedup=advised.best_speedup,
        headroom_pct=advised.headroom_pct,
        changes_without_gain=advised.changes_without_gain,
        stop=advised.stop,
        stop_reason=advised.stop_reason,
        existed=existed,
        candidate_copy=_copy(base, logged),
        speedup_cell=leaderboard.speedup_cell(logged),
        candidate_mean_ms=_candidate_ms(logged),
        improved_on_best=advised.keep,
        equivalent_to_best=best is not None and advised.decision is Decision.EQUAL,
        previous_best_candidate_ms=_candidate_ms(best),
        previous_best_log=best.log if best else None,
        previous_best_scope=PREVIOUS_BEST_SCOPE,
        all_time_best_candidate_ms=_candidate_ms(all_time),
        all_time_best_log=all_time.log if all_time else None,
        all_time_best_note=ALL_TIME_BEST_NOTE,
        rows=len(shelf.records),
        superseded_rows=len(shelf.superseded),
        skipped=_skipped(shelf),
        skipped_total=len(shelf.skipped),
        warnings=warnings,
    )


def _candidate_ms(logged: Logged | None) -> float | None:
    measured = logged.record.comparison.candidate if logged else None
    return measured.mean_ms if measured else None


def _sentence(advised: Advice) -> str:
    words = f"{advised.decision}: {advised.reason}"
    return f"{words}. Stop: {advised.stop_reason}" if advised.stop_reason else words


def _warnings(given: dict[str, Any], saved: Comparison, target: str, logged: Logged, existed: bool) -> tuple[str, ...]:
    found = []
    if any(name in given and given[name] != value for name, value in
           (("verdict", saved.verdict.value), ("speedup", saved.speedup))):
        found.append("the result given differs from the one that verify saved; the saved one is recorded")
    if existed and logged.record.target != target:
        found.append(f"this result was recorded before, as {logged.record.target}; nothing was added to {target}")
    elif saved.target != target:
        found.append(f"this was measured as {saved.target}; the board says so")
    if saved.self_reported:
        found.append("the scripts timed themselves: the row stands apart, and is not counted as verified")
    if logged.record.candidate_file is None and saved.verdict is VerdictKind.FASTER:
        found.append("no copy of the candidate is kept: verify saved no text of it")
    return tuple(found)


def _entry(shelf: Shelf, logged: Logged) -> HistoryEntry:
    kept, found = logged.record, logged.record.comparison
    return HistoryEntry(
        log=logged.log,
        target=kept.target,
        timestamp=kept.timestamp,
        verdict=found.verdict,
        rule=found.rule,
        speedup=found.speedup,
        interval_99=found.interval_99,
        decision=_advice(shelf, logged).decision,
        note=markdown.plain(kept.note, 200),
        who=markdown.plain(kept.who, WHO_LIMIT),
        gpu=found.gpu,
        assurance=found.assurance,
        id=found.id,
        candidate_copy=_copy(Path(), logged),
    )


def _copy(base: Path, logged: Logged) -> str | None:
    name = logged.record.candidate_file
    return (base / logged.log).with_name(Path(name).name).as_posix() if name else None


def _skipped(shelf: Shelf) -> tuple[Skipped, ...]:
    return tuple(Skipped(markdown.plain(each.path, 200), markdown.plain(each.reason, 300))
                 for each in shelf.skipped[:SKIPPED_LIMIT])
