"""Says a comparison in the words of hotkernel 0.1 too, where they have a meaning here; decides nothing."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from hotkernel.judge.sequence import MIN_GAIN
from hotkernel.schema.comparison import Comparison, TimedSide, VerifyResult
from hotkernel.schema.verdict import Measurement, VerdictKind

_NOT_TIMED = "there is no verdict on times: the comparison was refused"
_BY_PAIRS = "a target is decided on the ratio within pairs and its interval (interval_99), not on a difference of means"
_BY_TIME = "a target's processes are warmed up until their times agree, not by a number of runs"


def verify_result(found: Comparison, *, warmup: int | None, wall_s: float) -> VerifyResult:
    """The comparison as verify answers it; `warmup` is None for a target. Its evidence stays in what was saved."""
    kept = {field.name: getattr(found, field.name) for field in dataclasses.fields(Comparison)}
    sides = {name: _timed(getattr(found, name)) for name in ("baseline", "candidate", "incumbent")}
    cases = tuple(dataclasses.replace(case, evidence=None) for case in found.cases)
    keys = _of_scripts(found, warmup) if found.self_reported else _of_target(found)
    keys |= _of_means(found)
    because: dict[str, str] = {name: reason for name, (value, reason) in keys.items() if value is None}
    values: dict[str, Any] = {name: value for name, (value, _) in keys.items()}
    return VerifyResult(**{**kept, **sides, **values, "cases": cases, "evidence": None, "wall_s": wall_s,
                           "null_because": because})


def _of_means(found: Comparison) -> dict[str, tuple[Any, str]]:
    """The difference of the two means, and whether the verdict is one of the two that tell them apart."""
    refused = found.verdict in (VerdictKind.INCORRECT, VerdictKind.INVALID)
    both = found.baseline is not None and found.candidate is not None
    delta = found.baseline.mean_ms - found.candidate.mean_ms if found.baseline and found.candidate and both else None
    told = None if refused else found.verdict in (VerdictKind.FASTER, VerdictKind.SLOWER)
    return {"delta_ms": (delta, "a side has no time"), "significant": (told, _NOT_TIMED)}


def _of_scripts(found: Comparison, warmup: int | None) -> dict[str, tuple[Any, str]]:
    """Runs of each script, in turn."""
    one, other = found.baseline, found.candidate
    allowed = None
    if one and found.interval_99:
        reach = math.log(found.interval_99[1] / found.interval_99[0]) / 2
        allowed = one.mean_ms * -math.expm1(-max(reach, MIN_GAIN))
    return {
        "n": (min(one.n, other.n) if one and other else None, "a script gave no time"),
        "warmup": (warmup, ""),
        "order": ("interleaved baseline/candidate, the first of each two changing every time", ""),
        "threshold_ms": (allowed, "too few rounds of both scripts to know their spread"),
    }


def _of_target(found: Comparison) -> dict[str, tuple[Any, str]]:
    """Pairs of processes, each with values of both sides in turn."""
    batches = found.evidence.batches if found.evidence else ()
    pairs = len({batch.pair for batch in batches})
    return {
        "n": (pairs or None, "no pair of processes was measured"),
        "warmup": (None, _BY_TIME),
        "order": ("pairs of processes; in each, values of both sides in turn, the first of each two changing every time", ""),
        "threshold_ms": (None, _BY_PAIRS),
    }


def _timed(side: Measurement | None) -> TimedSide | None:
    if side is None:
        return None
    kept = {field.name: getattr(side, field.name) for field in dataclasses.fields(Measurement)}
    return TimedSide(**kept, samples_ms=side.samples)
