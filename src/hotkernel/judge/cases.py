"""One verdict over all cases of a target, from each case's own: a gain in the geometric mean, and no case slower."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hotkernel.judge import wording
from hotkernel.judge.sequence import Estimate
from hotkernel.schema.comparison import CaseResult
from hotkernel.schema.verdict import Verdict, VerdictKind

MIXED = "cases_disagree"
UNSETTLED = 0.95  # of a case that is not called slower: a loss as large may be hidden in noise that a candidate makes itself
# A gain that was doubted is no figure to take a mean with.
DOUBTS = {"baseline_disturbed", "gain_not_in_long_batches", "gain_not_in_one_call", "gain_within_copies", "voids_on_one_side"}


def join(cases: Sequence[CaseResult]) -> Verdict:
    """The verdict over all cases; the same cases give the same verdict for ever."""
    if not cases:
        raise ValueError("a verdict over no case")
    for kind in (VerdictKind.INVALID, VerdictKind.INCORRECT):
        for case in cases:
            if case.verdict is kind:
                return Verdict(kind, f"case {case.case}: {case.reason}", rule=case.rule)
    doubted = next((case for case in cases if case.verdict is VerdictKind.INCONCLUSIVE and case.rule in DOUBTS), None)
    if doubted:
        return Verdict(VerdictKind.INCONCLUSIVE, f"case {doubted.case}: {doubted.reason}", rule=doubted.rule)
    speedups = [case.speedup for case in cases if case.speedup is not None]
    if len(speedups) < len(cases):
        unknown = next(case for case in cases if case.speedup is None)
        return Verdict(VerdictKind.INCONCLUSIVE, f"case {unknown.case}: {unknown.reason}", rule=unknown.rule)
    speedup = math.exp(math.fsum(map(math.log, speedups)) / len(cases))
    interval = _interval(cases, speedup)
    gain = wording.difference(Estimate((), math.log(speedup), None))
    said = f"{gain} in the geometric mean of {wording.count(len(cases), 'case')}"
    faster = [case for case in cases if case.verdict is VerdictKind.FASTER]
    slower = [case for case in cases if case.verdict is VerdictKind.SLOWER]
    unsettled = [case for case in cases if case.verdict is VerdictKind.INCONCLUSIVE and (case.speedup or 1.0) < UNSETTLED]
    if faster and not slower and unsettled:
        reason = f"{said}, but case {_listed(unsettled)} seems slower, and is too noisy to tell"
        return Verdict(VerdictKind.INCONCLUSIVE, reason, rule=MIXED, speedup=speedup, interval=interval)
    if slower and faster:
        reason = f"{said}, but case {_listed(slower)} is slower and {_listed(faster)} faster"
        return Verdict(VerdictKind.INCONCLUSIVE, reason, rule=MIXED, speedup=speedup, interval=interval)
    if slower:
        return Verdict(VerdictKind.SLOWER, f"{said}: slower in {_listed(slower)}", speedup=speedup, interval=interval)
    if faster and interval and interval[0] > 1:
        rest = f", the rest no different ({len(cases) - len(faster)})" if len(faster) < len(cases) else ""
        return Verdict(VerdictKind.FASTER, f"{said}: confirmed in {_listed(faster)}{rest}", speedup=speedup, interval=interval)
    why = f"confirmed in {_listed(faster)} alone, and the mean may be none" if faster else "no case is faster beyond its noise"
    return Verdict(VerdictKind.INCONCLUSIVE, f"{said}: {why}", speedup=speedup, interval=interval,
                   equivalent=None if interval is None else interval[0] >= 0.99 and interval[1] <= 1.01)


def over_incumbent(cases: Sequence[CaseResult]) -> tuple[VerdictKind | None, float | None]:
    """Against the best so far, over all cases: what it is called, and the geometric mean; None where a case does not say."""
    speedups = [case.speedup_over_incumbent for case in cases if case.speedup_over_incumbent]
    if len(speedups) < len(cases):
        return None, None
    kinds = {case.incumbent_verdict for case in cases} & {VerdictKind.FASTER, VerdictKind.SLOWER}
    kind = kinds.pop() if len(kinds) == 1 else VerdictKind.INCONCLUSIVE
    return kind, math.exp(math.fsum(map(math.log, speedups)) / len(cases))


def _interval(cases: Sequence[CaseResult], speedup: float) -> tuple[float, float] | None:
    """99 %, of the geometric mean: the cases were measured one after the other, so their errors add as independent ones."""
    widths = []
    for case in cases:
        if case.interval_99 is None or case.speedup is None:
            return None
        low, high = (math.log(bound) for bound in case.interval_99)
        widths.append(max(high - math.log(case.speedup), math.log(case.speedup) - low))
    reach = math.sqrt(math.fsum(width * width for width in widths)) / len(cases)
    return speedup * math.exp(-reach), speedup * math.exp(reach)


def _listed(cases: Sequence[CaseResult]) -> str:
    return ", ".join(f"{case.case} ({case.speedup:.3g} times)" for case in cases)
