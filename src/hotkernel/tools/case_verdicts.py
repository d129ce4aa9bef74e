"""Has each case of a target verified, and joins their comparisons to one; measures nothing itself."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.judge import cases as case_judge
from hotkernel.records import comparisons, pins
from hotkernel.schema.comparison import CaseResult, Comparison
from hotkernel.schema.request import Request
from hotkernel.schema.verdict import Check, VerdictKind
from hotkernel.session import Session


def over_cases(session: Session, request: Request, first: Comparison, measure: Callable[[Request], Comparison]) -> Comparison:
    """The verdict over all cases of a target, of which `first` is the first: each is a verify of its own.

    An incorrect or invalid one ends it: no other case could mend that.
    """
    parts, deadline, state = [first], time.monotonic() + request.timeout_s, Path(request.state)
    for name in first.case_names[1:]:
        if parts[-1].verdict in (VerdictKind.INCORRECT, VerdictKind.INVALID):
            break
        session.progress(f"case {name}", len(parts), len(first.case_names))
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise ToolError(f"the verify ran out of its timeout before case {name}", fix="give a larger timeout, or fewer cases")
        folder = Path(request.scratch) / f"case-{len(parts)}"
        folder.mkdir()
        parts.append(measure(replace(request, id=comparisons.new_id(), case=name, timeout_s=left_s, scratch=str(folder),
                                     pins=pins.load(state, Path(request.baseline_file)))))
    whole = joined(comparisons.new_id(), parts)
    comparisons.save(state, whole)
    return whole


def joined(comparison_id: str, parts: Sequence[Comparison]) -> Comparison:
    """The comparison over all cases; it holds each one's verdict, times and evidence, so that it proves itself."""
    rows = tuple(map(_row, parts))
    verdict = case_judge.join(rows)
    over_best, speedup_over_best = case_judge.over_incumbent(rows)
    first, last = parts[0], parts[-1]
    seconds = {name: math.fsum(part.seconds.get(name, 0.0) for part in parts) for name in first.seconds}
    return replace(
        first, id=comparison_id, case="", cases=rows, verdict=verdict.kind, reason=verdict.reason, rule=verdict.rule,
        speedup=verdict.speedup, interval_99=verdict.interval, equivalent=verdict.equivalent, smallest_effect_pct=None,
        baseline=None, candidate=None, resolution_us=None, incumbent=None, speedup_over_incumbent=speedup_over_best,
        incumbent_verdict=over_best, baselines_ms=None, baseline_name=_in_all(part.baseline_name for part in parts),
        call_ms=None, witness_ms=None, sustained_ms=None,
        setup_ms=None, floor_ms=None, ceiling_share_pct=None, roofline_inputs={}, shapes={}, dtype=None,
        checks=_checks(parts), gpu_after=last.gpu_after, timestamp=last.timestamp, evidence=None, seconds=seconds,
        limited_rounds={f"{part.case}: {kind}": why for part in parts for kind, why in part.limited_rounds.items()},
        warnings=tuple(dict.fromkeys(words for part in parts for words in part.warnings)))


def _row(part: Comparison) -> CaseResult:
    return CaseResult(
        case=part.case, id=part.id, verdict=part.verdict, reason=part.reason, rule=part.rule, speedup=part.speedup,
        interval_99=part.interval_99, baseline_ms=part.baseline.mean_ms if part.baseline else None,
        candidate_ms=part.candidate.mean_ms if part.candidate else None, samples=part.candidate.n if part.candidate else 0,
        shapes=part.shapes, dtype=part.dtype, evidence=part.evidence, baseline_name=part.baseline_name,
        speedup_over_incumbent=part.speedup_over_incumbent, incumbent_verdict=part.incumbent_verdict)


def _in_all(names: Iterable[str | None]) -> str | None:
    """What all cases say; None where they differ."""
    found = set(names)
    return found.pop() if len(found) == 1 else None


def _checks(parts: Sequence[Comparison]) -> tuple[Check, ...]:
    """Of each side one check over all cases: the outputs of all, the worst of each error."""
    found: dict[str, list[Check]] = {}
    for part in parts:
        for check in part.checks:
            found.setdefault(check.side, []).append(check)
    return tuple(map(_over_all, found.values()))


def _over_all(checks: Sequence[Check]) -> Check:
    broken = next((check for check in checks if not check.ok), checks[0])
    kinds = dict.fromkeys(kind for check in checks for kind in check.rounds)
    return replace(
        broken, outputs=sum(check.outputs for check in checks),
        within_share=min((c.within_share for c in checks if c.within_share is not None), default=None),
        max_abs_error=_worst(check.max_abs_error for check in checks),
        max_rel_error=_worst(check.max_rel_error for check in checks),
        rms_error_ulps=_worst(check.rms_error_ulps for check in checks),
        rounds={kind: sum(check.rounds.get(kind, 0) for check in checks) for kind in kinds})


def _worst(errors: Iterable[float | None]) -> float | None:
    return max((error for error in errors if error is not None), default=None)
