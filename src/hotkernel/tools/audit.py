"""audit: recomputes every verdict from its log, holds copies and board against the logs, verifies a row again when asked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from hotkernel.errors import ToolError
from hotkernel.judge import cases as case_judge
from hotkernel.judge import samples
from hotkernel.judge.verdict import decide, decide_over_incumbent
from hotkernel.records import comparisons, leaderboard, store
from hotkernel.records.state import state_dir
from hotkernel.records.store import Shelf
from hotkernel.schema.audit import AuditedLog, AuditResult, VerifiedAgain
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.record import Logged
from hotkernel.schema.verdict import Measurement, Side, Verdict, VerdictKind
from hotkernel.session import Session
from hotkernel.tools.again import verify_again

CLOSE = 1e-9  # relative: JSON keeps a float's every digit, so what differs by more was changed
FAULTY_LIMIT = 50
_REFUSED = (VerdictKind.INCORRECT, VerdictKind.INVALID)


def audit(
    session: Session,
    target: Annotated[str, "one target's name; empty: all"] = "",
    run: Annotated[str, "a log or id: verify this row again from its kept source"] = "",
    cwd: Annotated[str, "folder of results/"] = "",
) -> AuditResult:
    """Hold the board to its evidence: name each log whose verdict, times, source copy or row is not what the evidence proves.

    Nothing is changed.
    """
    if target:
        store.check_target(target)
    base = session.folder(cwd)
    shelf = store.read(base)
    mine = [each for each in shelf.records if target in ("", each.record.target)]
    if not mine and not shelf.skipped:
        raise ToolError(f"nothing is recorded{' of ' + target if target else ''} under {base / store.RESULTS}",
                        fix="check target and cwd; history lists what is there")
    audited = [_audited(session, base, each) for each in mine]
    faulty = [each for each in audited if each.problems]
    board = tuple(_board_problems(base, shelf, mine))
    again = _again(session, mine, run, cwd) if run else None
    warnings = [f"{len(shelf.skipped)} files under results/ are no records"] if shelf.skipped else []
    if len(faulty) > FAULTY_LIMIT:
        warnings.append(f"{len(faulty)} logs have problems; the first {FAULTY_LIMIT} are named")
    return AuditResult(
        ok=not faulty and not board and (again is None or again.holds), checked=len(audited),
        recomputed=sum(each.recomputed is not None for each in audited), faulty=tuple(faulty[:FAULTY_LIMIT]),
        board_problems=board, again=again, skipped=shelf.skipped[:FAULTY_LIMIT], warnings=tuple(warnings))


# Logs -----------------------------------------------------------------------------------------------------------------


def _audited(session: Session, base: Path, logged: Logged) -> AuditedLog:
    found = logged.record.comparison
    verdict = _proved(found)
    of_verdict = _of_cases(found, verdict) if found.cases else _of_verdict(found, verdict)
    problems = [*of_verdict, *_of_copy(base, logged), *_of_saved(session, found)]
    for number, each in enumerate(logged.confirmations, 1):
        wrong = (*_of_verdict(each, _proved(each)), *_of_source(found, each))
        problems += [f"confirmation {number}: {problem}" for problem in wrong]
    return AuditedLog(logged.log, logged.record.target, found.id, found.verdict, verdict.kind if verdict else None,
                      tuple(problems))


def _proved(found: Comparison) -> Verdict | None:
    """The verdict that a log's evidence gives; over cases, theirs."""
    if found.self_reported:
        return None
    if found.cases:
        return case_judge.join(found.cases) if all(case.evidence for case in found.cases) else None
    return decide(found.evidence) if found.evidence else None


def _of_source(found: Comparison, confirmation: Comparison) -> Iterator[str]:
    """Whether a confirmation measured what the row did."""
    for side in ("baseline", "candidate"):
        ours, its = found.sources.get(side), confirmation.sources.get(side)
        if ours and its and ours.sha256 != its.sha256:
            yield f"it measured another {side}"


def _of_cases(found: Comparison, verdict: Verdict | None) -> Iterator[str]:
    """How a log over several cases differs from what their evidence proves."""
    for case in found.cases:
        if case.evidence is None:
            yield f"case {case.case} keeps no evidence, so nothing proves its verdict"
            continue
        proved = decide(case.evidence)
        if (proved.kind, proved.rule) != (case.verdict, case.rule) or not _same(proved.speedup, case.speedup) \
                or not _all_same(proved.interval, case.interval_99):
            yield (f"case {case.case} says {case.verdict} ({_said(case.speedup)}), "
                   f"its evidence {proved.kind} ({_said(proved.speedup)})")
        over_best = decide_over_incumbent(case.evidence) if case.speedup_over_incumbent is not None else None
        if over_best and not _same(over_best.speedup, case.speedup_over_incumbent):
            yield f"case {case.case} says {_said(case.speedup_over_incumbent)} over the best so far, its evidence something else"
    if not _same(case_judge.over_incumbent(found.cases)[1], found.speedup_over_incumbent):
        yield f"it says {_said(found.speedup_over_incumbent)} over the best so far, its cases something else"
    if verdict and (verdict.kind is not found.verdict or not _same(verdict.speedup, found.speedup)
                    or not _all_same(verdict.interval, found.interval_99)):
        yield f"it says {found.verdict} ({_said(found.speedup)}), its cases {verdict.kind} ({_said(verdict.speedup)})"


def _of_verdict(found: Comparison, verdict: Verdict | None) -> Iterator[str]:
    """How the log differs from what its evidence proves."""
    if verdict is None or found.evidence is None:
        if not found.self_reported:
            yield "it keeps no evidence, so nothing proves its verdict"
        return
    if verdict.kind is not found.verdict:
        yield f"it says {found.verdict}, its evidence says {verdict.kind}: {verdict.reason}"
        return
    if verdict.rule != found.rule:
        yield f"it names the rule {found.rule}, its evidence {verdict.rule}"
    if not _same(verdict.speedup, found.speedup) or not _all_same(verdict.interval, found.interval_99):
        yield f"it says a speedup of {_said(found.speedup)}, its evidence {_said(verdict.speedup)}"
    values = samples.values_of(found.evidence.plan, found.evidence.batches, found.evidence.fills)
    for side, kept in ((Side.BASELINE, found.baseline), (Side.CANDIDATE, found.candidate), (Side.INCUMBENT, found.incumbent)):
        proved = samples.measurement_of(values, side)
        if found.verdict in _REFUSED and side is not Side.BASELINE:
            proved = None
        if not _same_times(proved, kept):
            yield f"its times of the {side} are not those of its evidence"
    over_best = decide_over_incumbent(found.evidence) if found.incumbent else None
    if not _same(over_best.speedup if over_best else None, found.speedup_over_incumbent):
        yield f"it says {_said(found.speedup_over_incumbent)} over the best so far, its evidence something else"


def _of_copy(base: Path, logged: Logged) -> Iterator[str]:
    """Whether the candidate's copy beside the log is the source that was measured."""
    source, name = logged.record.comparison.sources.get("candidate"), logged.record.candidate_file
    if source is None or source.text is None:
        return
    kept = source.text.encode("utf-8", "surrogateescape")
    if hashlib.sha256(kept).hexdigest() != source.sha256:
        yield "the source in the log is not the one whose hash it names"
    copy = (base / logged.log).with_name(Path(name).name) if name else None
    try:
        if copy is None or copy.read_bytes() != kept:
            yield f"{copy.name if copy else 'the copy'} is not the candidate that was measured"
    except OSError:
        yield f"{name} is gone: the candidate's copy"


def _of_saved(session: Session, found: Comparison) -> Iterator[str]:
    """Whether the log is what verify saved, where this machine still has that."""
    state = state_dir(session.environment)
    if not (state / "comparisons" / f"{found.id}.json").exists():
        return
    try:
        if comparisons.load(state, found.id) != found:
            yield "it is not what verify saved under its id"
    except ToolError as error:
        yield error.message


# The board ------------------------------------------------------------------------------------------------------------


def _board_problems(base: Path, shelf: Shelf, mine: list[Logged]) -> Iterator[str]:
    """Rows that no log says, and logs whose row is not on the board."""
    try:
        lines = (base / leaderboard.NAME).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        if shelf.records:
            yield f"{leaderboard.NAME} cannot be read: record anything, or the same id again, to have it drawn"
        return
    drawn = leaderboard.draw(shelf).splitlines()
    for logged in mine:
        if leaderboard.row(logged) not in lines:
            yield f"the board's row of {logged.log} is missing or is not what the log says"
    for line in lines:
        if line.startswith("|") and line not in drawn:
            yield f"no log says this row: {line[:200]}"
    if not shelf.records and any(line.startswith("|") for line in lines):
        yield "the board has rows, and there is no log"


# Verifying again ------------------------------------------------------------------------------------------------------


def _again(session: Session, mine: list[Logged], run: str, cwd: str) -> VerifiedAgain:
    """One row measured once more; raises ToolError where its files are not there any longer."""
    logged = store.Shelf(tuple(mine)).called(run)
    if logged is None:
        raise ToolError(f"no record is called {run[:80]!r}", fix="give a log's path or a comparison's id; history lists them")
    then, now = logged.record.comparison, verify_again(session, logged, cwd=cwd)
    holds = now.verdict is then.verdict
    said = f"it was {then.verdict} ({_said(then.speedup)}) and is {now.verdict} ({_said(now.speedup)}): {now.reason}"
    return VerifiedAgain(logged.log, now.id, holds, said, then.verdict, now.verdict, then.speedup, now.speedup, now.interval_99)


# Comparing ------------------------------------------------------------------------------------------------------------


def _same(one: float | None, other: float | None) -> bool:
    if one is None or other is None:
        return one is other
    return abs(one - other) <= CLOSE * max(abs(one), abs(other))


def _all_same(one: tuple[float, ...] | None, other: tuple[float, ...] | None) -> bool:
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(map(_same, one, other))


def _same_times(proved: Measurement | None, kept: Measurement | None) -> bool:
    if proved is None or kept is None:
        return proved is kept
    return proved.n == kept.n and _all_same(proved.samples, kept.samples) and all(
        _same(getattr(proved, name), getattr(kept, name)) for name in ("mean_ms", "std_ms", "min_ms", "max_ms", "median_ms"))


def _said(speedup: float | None) -> str:
    return "no speedup" if speedup is None else f"{speedup:.4g} times"
