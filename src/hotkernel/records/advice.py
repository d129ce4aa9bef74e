"""Says keep, equal or revert against the run's best so far, what is left to the ceiling, and when to stop; pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hotkernel.schema.comparison import Comparison
from hotkernel.schema.record import Advice, Basis, Decision, Logged, Record
from hotkernel.schema.verdict import VerdictKind

CHANGES_BEFORE_STOP = 3  # in a row that do not beat the best
CLOSE_TO_CEILING_PCT = 90.0  # within 10 % of the measured ceiling
_TOLD = (VerdictKind.FASTER, VerdictKind.SLOWER, VerdictKind.INCONCLUSIVE)  # one that failed itself tells nothing


@dataclass(frozen=True)
class _Run:
    """Where a run stands: the record in force, and the changes since that did not beat it."""

    best: Record | None = None
    failed: int = 0
    sources: frozenset[str] = frozenset()  # of the best, and of the changes counted since


def advise(earlier: Sequence[Record], new: Record) -> Advice:
    """What to do after `new`; of the `earlier` records, oldest first, those of the same run count.

    A run is one target, one card, one baseline and one `who`; what scripts report themselves is a run apart.
    """
    run = _run_until([each for each in earlier if is_same_run(each, new)])
    decision, basis, reason = _decide(run.best, new.comparison)
    after = _after(run, new, decision)
    share = _share_in_force(after.best, new.comparison)
    stop = _stop_reason(after.failed, share)
    return Advice(
        decision=decision,
        reason=reason,
        basis=basis,
        best_id=run.best.comparison.id if run.best else None,
        best_speedup=run.best.comparison.speedup if run.best else None,
        headroom_pct=None if share is None else max(0.0, 100.0 - share),
        changes_without_gain=after.failed,
        stop=stop is not None,
        stop_reason=stop,
    )


def run_best(records: Sequence[Record], target: str, card: str, who: str | None = None) -> Record | None:
    """The best so far of a target on a card (`card_of`), oldest record first; of everybody where `who` is None.

    Its comparison's candidate source is what verify can run as the incumbent. Self-reported rows are never it.
    """
    run = [each for each in records if each.is_verified and each.target == target
           and card_of(each.comparison) == card and who in (None, each.who)]
    return _run_until(run).best


def all_time_best(records: Sequence[Logged], this: Logged) -> Logged | None:
    """The fastest `faster` row of anybody on this one's target and card, this one left out; measured on many days."""
    rivals = [each for each in records if each.log != this.log and each.record.target == this.record.target
              and each.record.is_verified == this.record.is_verified
              and card_of(each.record.comparison) == card_of(this.record.comparison)
              and each.record.comparison.verdict is VerdictKind.FASTER]
    return min(rivals, key=_candidate_ms, default=None)


def is_same_run(one: Record, other: Record) -> bool:
    """Whether two records may be held against each other."""
    return (
        one.target == other.target
        and one.who == other.who
        and one.is_verified == other.is_verified
        and card_of(one.comparison) == card_of(other.comparison)
        and len({_sha256(each.comparison, "baseline") for each in (one, other)} - {None}) < 2
    )


def card_of(comparison: Comparison) -> str:
    """The card by its uuid, else by its name; "cpu" on the CPU."""
    if comparison.device == "cpu":
        return comparison.device
    return comparison.gpu_uuid or comparison.gpu or comparison.device


def _run_until(records: Sequence[Record]) -> _Run:
    run = _Run()
    for each in records:
        run = _after(run, each, _decide(run.best, each.comparison)[0])
    return run


def _after(run: _Run, record: Record, decision: Decision) -> _Run:
    """The run with one more record. The same source again is no change; an invalid verify says nothing of one."""
    source = _sha256(record.comparison, "candidate") or record.comparison.id
    if decision is Decision.KEEP:
        return _Run(record, sources=frozenset({source}))
    if record.comparison.verdict is VerdictKind.INVALID or source in run.sources:
        return run
    return _Run(run.best, run.failed + 1, run.sources | {source})


def _decide(best: Record | None, new: Comparison) -> tuple[Decision, Basis, str]:
    if new.verdict is VerdictKind.INVALID:
        return Decision.REVERT, Basis.VERDICT, "the verify was invalid, so it says nothing for this change"
    if new.verdict is VerdictKind.INCORRECT:
        return Decision.REVERT, Basis.VERDICT, "the candidate is incorrect"
    if new.verdict is VerdictKind.SLOWER:
        return Decision.REVERT, Basis.VERDICT, "it is slower than the baseline"
    if best is None and new.verdict is VerdictKind.FASTER:
        return Decision.KEEP, Basis.BASELINE, "it is faster than the baseline, and nothing is kept yet"
    if best is None:
        return Decision.EQUAL, Basis.BASELINE, "it cannot be told from the baseline"
    if new.incumbent_verdict in _TOLD and _ran_beside(best.comparison, new):
        return _against_incumbent(new, new.incumbent_verdict)
    return _against_interval(best.comparison, new)


def _against_incumbent(new: Comparison, verdict: VerdictKind | None) -> tuple[Decision, Basis, str]:
    where = "in the same interleaving"
    if verdict is VerdictKind.SLOWER:
        return Decision.REVERT, Basis.INCUMBENT, f"the run's best is faster, {where}"
    if verdict is VerdictKind.FASTER and new.verdict is VerdictKind.FASTER:
        return Decision.KEEP, Basis.INCUMBENT, f"it beats the run's best, {where}"
    if verdict is VerdictKind.FASTER:
        return Decision.EQUAL, Basis.INCUMBENT, f"it beats the run's best {where}, but not the baseline"
    return Decision.EQUAL, Basis.INCUMBENT, f"it cannot be told from the run's best, {where}"


def _against_interval(best: Comparison, new: Comparison) -> tuple[Decision, Basis, str]:
    how = "by the difference of two verifies' intervals (give the best as incumbent for a real comparison)"
    kept, found = best.interval_99, new.interval_99
    if kept is None or found is None:
        return Decision.EQUAL, Basis.INTERVALS, "it cannot be held against the run's best: an interval is missing"
    if found[1] < kept[0]:
        return Decision.REVERT, Basis.INTERVALS, f"the run's best is faster, {how}"
    if new.verdict is VerdictKind.FASTER and found[0] > kept[1]:
        return Decision.KEEP, Basis.INTERVALS, f"it beats the run's best, {how}"
    return Decision.EQUAL, Basis.INTERVALS, f"it cannot be told from the run's best, {how}"


def _ran_beside(best: Comparison, new: Comparison) -> bool:
    """Whether the incumbent of `new` was the best: by its id, or by its source."""
    if new.incumbent_id is not None:
        return new.incumbent_id == best.id
    return _sha256(new, "incumbent") is not None and _sha256(new, "incumbent") == _sha256(best, "candidate")


def _share_in_force(best: Record | None, new: Comparison) -> float | None:
    """What share of the measured ceiling is reached by what is in force: the best, else the baseline.

    The baseline moves the same bytes as the candidate, so its share follows from the two times.
    """
    if best is not None:
        return best.comparison.ceiling_share_pct
    if new.ceiling_share_pct is None or new.baseline is None or new.candidate is None or new.baseline.mean_ms <= 0:
        return None
    return new.ceiling_share_pct * new.candidate.mean_ms / new.baseline.mean_ms


def _stop_reason(failed: int, share: float | None) -> str | None:
    if share is not None and share >= CLOSE_TO_CEILING_PCT:
        return f"what is in force is within {100 - CLOSE_TO_CEILING_PCT:.0f} % of the measured ceiling"
    if failed >= CHANGES_BEFORE_STOP:
        return f"{failed} changes in a row did not beat the best"
    return None


def _candidate_ms(logged: Logged) -> float:
    measured = logged.record.comparison.candidate
    return measured.mean_ms if measured else math.inf


def _sha256(comparison: Comparison, name: str) -> str | None:
    source = comparison.sources.get(name)
    return source.sha256 if source else None
