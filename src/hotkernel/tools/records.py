"""The tool record: keeps what verify found, draws the board, says what to do next; only confirmations are measured."""

from __future__ import annotations

import dataclasses
import datetime
import json
from pathlib import Path
from typing import Annotated, Any

from hotkernel.errors import ToolError
from hotkernel.parameter import Bounds
from hotkernel.records import advice, comparisons, confirmations, entries, later_reasons, leaderboard, markdown, sources, store
from hotkernel.records.state import state_dir
from hotkernel.records.store import Shelf
from hotkernel.schema.comparison import PROTOCOL, Comparison
from hotkernel.schema.explanation import Difference
from hotkernel.schema.plain import from_plain
from hotkernel.schema.record import (
    Decision,
    Logged,
    Record,
    RecordResult,
)
from hotkernel.schema.verdict import VerdictKind
from hotkernel.session import Session
from hotkernel.tools.again import verify_again

GIT_TIMEOUT_S = 10.0
PREVIOUS_BEST_SCOPE = "the same target, card, baseline and who"
ALL_TIME_BEST_NOTE = "of anybody, and measured at another time: give it as incumbent for a real comparison"


def record(
    session: Session,
    target: Annotated[str, "name of the target: its folder under results/"],
    verify_result: Annotated[dict[str, Any] | str, "verify's id, or its answer"],
    note: Annotated[str, "what changed, in one line"] = "",
    who: Annotated[str, "who honestly made the change"] = "",
    why: Annotated[dict[str, Any] | None, "explain's answer with `against`: why it won; of an older row too"] = None,
    confirm: Annotated[int, "independent repeats to keep with the row", Bounds(0, 10)] = 0,
    cwd: Annotated[str, "folder of results/"] = "",
) -> RecordResult:
    """Write a verify's result to results/<target>/, win or lose, redraw LEADERBOARD.md, and say keep, equal or revert."""
    _check_names(target, verify_result)
    base, state = session.folder(cwd), state_dir(session.environment)
    given, difference = _given(verify_result), _difference(why)
    comparison = _comparison(base, state, _id_of(given))
    commit = _commit(session, base)
    with store.locked(state, base):
        logged = store.read(base).of(comparison.id)
        existed = logged is not None
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="microseconds")
        is_added = logged is not None and logged.why is None and difference is not None
        if logged is None:
            what, by = markdown.plain(note, entries.NOTE_LIMIT), markdown.plain(who, entries.WHO_LIMIT)
            files = sources.baseline_files(base, comparison)
            logged = store.write(base, Record(target, now, comparison, what, by, commit, baseline_files=files, why=difference))
        elif is_added and difference is not None:
            later_reasons.write(base, logged, difference, now)
        board, shelf = _redraw(base, logged)
    warnings = _warnings(given, comparison, target, logged, note if existed else None)
    if is_added:
        warnings = (*warnings, "this row was recorded before: `why` stands beside it, with today's date")
    elif difference not in (None, logged.why):
        warnings = (*warnings, "this row has a `why` already, and keeps it")
    if confirm:
        logged, board, shelf = _confirm(session, base, state, logged, confirm, cwd)
    if logged.confirmed < len(logged.confirmations):
        warnings = (*warnings, f"{logged.confirmed} of {len(logged.confirmations)} independent repeats came to this row's "
                               "verdict: show says what the others found")
    return _result(base, board, shelf, logged, existed, warnings)


def _check_names(target: str, verify_result: dict[str, Any] | str) -> None:
    """Raise ToolError where `target` is no target's name."""
    store.check_target(target)
    if comparisons.is_id(target) and not comparisons.is_id(str(verify_result)):
        raise ToolError(f"{target} is the id of a comparison, and no target's name",
                        fix="the target's name comes first, then the id")


def _comparison(base: Path, state: Path, comparison_id: str) -> Comparison:
    """What verify saved under this id, or a row that says it, wherever that was measured. Raises ToolError."""
    logged = store.read(base).of(comparison_id)
    comparison = logged.record.comparison if logged else comparisons.load(state, comparison_id)
    if not comparison.self_reported and comparison.protocol != PROTOCOL:
        raise ToolError(f"{comparison.id} was measured by protocol {comparison.protocol}, and this is {PROTOCOL}",
                        fix="verify again")
    if comparison.case:
        count = len(comparison.case_names)
        raise ToolError(f"{comparison.id} is of the case {comparison.case!r} alone, and the target has {count}",
                        fix="record the id that verify answered: that of all cases together")
    if comparison.confirms is not None:
        raise ToolError(f"{comparison.id} was made to confirm {comparison.confirms}, and is no row of its own",
                        fix="it is kept with that row; verify again for a row of its own")
    return comparison


def _confirm(session: Session, base: Path, state: Path, logged: Logged, times: int, cwd: str) -> tuple[Logged, Path, Shelf]:
    """Measure the row again and keep each as it comes, so that a cancel keeps those that are done."""
    for number in range(1, times + 1):
        session.progress(f"confirmation {number} of {times}", number - 1, times)
        found = verify_again(_told(session, number, times), logged, cwd=cwd, confirms=True)
        with store.locked(state, base):
            confirmations.write(base, logged, comparisons.load(state, found.id))
            board, shelf = _redraw(base, logged)
    return shelf.of(logged.record.comparison.id) or logged, board, shelf


def _told(session: Session, number: int, times: int) -> Session:
    """The same session, whose progress says which confirmation runs."""
    def say(message: str, done: int | None = None, total: int | None = None) -> None:
        session.progress(f"confirmation {number} of {times}: {message}", done, total)

    return dataclasses.replace(session, progress=say)


def _difference(why: dict[str, Any] | None) -> Difference | None:
    """The difference in what explain answered."""
    if not why:
        return None
    given = why.get("difference", why)
    try:
        return from_plain(Difference, given)
    except (TypeError, ValueError) as error:
        raise ToolError(f"why holds no difference of two profiles: {error}"[:300],
                        fix="give what explain answered when it was called with against") from None


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


def _result(base: Path, board: Path, shelf: Shelf, logged: Logged, existed: bool,
            warnings: tuple[str, ...]) -> RecordResult:
    found, advised, copy = logged.record.comparison, entries.advice_of(shelf, logged), entries.copy_path(logged)
    best, all_time = shelf.of(advised.best_id or ""), advice.all_time_best(shelf.records, logged)
    return RecordResult(
        log=str(base / logged.log),
        leaderboard=str(board),
        row=leaderboard.row(logged),
        keep=advised.keep,
        advice=entries.sentence(advised),
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
        candidate_copy=str(base / copy) if copy else None,
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
        confirmations=len(logged.confirmations), confirmed=logged.confirmed,
        rows=len(shelf.records), superseded_rows=len(shelf.superseded),
        skipped=entries.skipped(shelf),
        skipped_total=len(shelf.skipped),
        warnings=warnings,
    )


def _candidate_ms(logged: Logged | None) -> float | None:
    measured = logged.record.comparison.candidate if logged else None
    return measured.mean_ms if measured else None


def _warnings(given: dict[str, Any], saved: Comparison, target: str, logged: Logged, later_note: str | None) -> tuple[str, ...]:
    """What a caller should know; `later_note`: of a result that was recorded before, the note that came now."""
    found, existed = [], later_note is not None
    if any(name in given and given[name] != value for name, value in
           (("verdict", saved.verdict.value), ("speedup", saved.speedup))):
        found.append("the result given differs from the one that verify saved; the saved one is recorded")
    if existed and logged.record.target != target:
        found.append(f"this result was recorded before, as {logged.record.target}; nothing was added to {target}")
    elif saved.target != target:
        found.append(f"this was measured as {saved.target}; the board says so")
    if later_note and markdown.plain(later_note, entries.NOTE_LIMIT) != logged.record.note:
        found.append("this row was recorded before and keeps its note")
    if saved.self_reported:
        found.append("the scripts timed themselves: the row stands apart, and is not counted as verified")
    if logged.record.candidate_file is None and saved.verdict is VerdictKind.FASTER:
        found.append("no copy of the candidate is kept: verify saved no text of it")
    return tuple(found)
