"""Decides whether a candidate is faster, slower, inconclusive, incorrect or invalid; runs nothing, reads no file.

`next_step` reads the pairs from the first to the last and stops where they conclude, so that a verify that calls it
after every pair and a reader who calls it once, years later, come to the same end. docs/verdict.md tells the rules.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from hotkernel.judge import doubts, samples, sequence, wording
from hotkernel.judge.sequence import Estimate, Finding
from hotkernel.schema.verdict import Evidence, Fault, Pair, Plan, Side, Stage, Value, Verdict, VerdictKind

FAR_SLOWER = 20.0  # times: nothing more is learnt by going on
CONFIRMATION_ALPHA = sequence.confirmation_alpha(0)
CLOSE = 2.0  # times what a look asks for: below, the confirmation takes the pairs of the look after next
INCUMBENT_ALPHA = 0.005  # one look at all pairs
_WIDER = ("; the target needs wider rtol/atol (rounded integers: steps=1), a better reference, or mixture='normal' if extreme "
          "inputs are not legal for it")


@dataclass(frozen=True)
class Step:
    """What a running verify does next: fresh pairs of `stage` until there are `pairs` of them; or it is over."""

    stage: Stage | None
    pairs: int
    verdict: Verdict | None = None


def decide(evidence: Evidence) -> Verdict:
    """The verdict that `evidence` proves; the same evidence gives the same verdict for ever."""
    if refused := refusal(evidence.faults):
        return refused
    values = samples.values_of(evidence.plan, evidence.batches, evidence.fills)
    if impossible := _below_floor(values, evidence.floor_us):
        return impossible
    pairs = samples.pairs_of(evidence.plan, values)
    if not evidence.quiet:
        throttled = any(samples.is_throttled(batch) for batch in evidence.batches)
        word = "throttled" if throttled else "card not quiet"
        return _inconclusive(f"{word}: {evidence.note}" if evidence.note else word, pairs, rule=word.replace(" ", "_"))
    step = next_step(evidence.plan, pairs, earlier=evidence.earlier)
    if step.verdict and step.verdict.kind is VerdictKind.FASTER and (doubted := _doubted(evidence, step.verdict)):
        return doubted
    return step.verdict or _unfinished(step, pairs, evidence.earlier)


def next_step(plan: Plan, pairs: Sequence[Pair], *, earlier: Sequence[Pair] = ()) -> Step:
    """What to measure next, or the verdict, given this verify's `pairs` so far and those of earlier verifies.

    The looks go on where the earlier verifies' ended; a key confirmed before only has its gain confirmed afresh. Call
    it with whole pairs; a first pair may be given value by value, to end early with a candidate that is far slower.
    """
    found = [pair for pair in pairs if pair.stage is Stage.LOOK]
    standing, confirmation_alpha = _confirmed(plan, earlier)
    if standing:
        return _confirmation_step(plan, max(len(standing), plan.confirmation_pairs), pairs, confirmation_alpha)
    if found and found[0].log_ratio < -math.log(FAR_SLOWER):
        return Step(None, 1, _slower(sequence.estimate(found[:1]), "; it ended early"))
    everything = (*earlier, *found)
    most = len(earlier) + plan.looks[-1]
    size, looked = sequence.next_look(len(earlier)), 0
    while size <= most:
        if len(everything) < size:
            return Step(Stage.LOOK, size - len(earlier))
        step = _look_step(plan, sequence.estimate(everything[:size]), sequence.alpha_at(size), pairs, confirmation_alpha)
        if step is not None:
            return step
        size, looked = sequence.next_look(size), size
    if not looked and len(found) < plan.looks[-1]:
        return Step(Stage.LOOK, plan.looks[-1])  # too few for the next look, but they count towards it
    return Step(None, len(found), _nothing_seen(everything[: looked or most], looked, size))


def confirm(plan: Plan, pairs: Sequence[Pair], *, seen: Estimate | None = None, alpha: float = CONFIRMATION_ALPHA) -> Verdict:
    """Whether a fixed set of fresh pairs confirms a gain: its one-sided lower bound (99 %) lies above no gain at all."""
    fresh = [pair for pair in pairs if pair.stage is Stage.CONFIRMATION]
    if len(fresh) < max(plan.confirmation_pairs, 2):
        done = wording.count(len(fresh), "pair")
        return _inconclusive(f"a gain was not confirmed: the confirmation has {done}", fresh or pairs)
    found = sequence.estimate(fresh)
    count = wording.count(len(fresh), "fresh pair")
    said = wording.difference(found)
    lower = found.lower(alpha)
    if lower is None or lower <= 0:
        before = f"the looks saw it {wording.difference(seen)}, but " if seen else ""
        reason = f"a gain was not confirmed: {before}{count} with new inputs say {said}"
        return _inconclusive(reason, fresh, alpha=alpha, rule="not_confirmed")
    if not doubts.shows_in_long_batches(fresh):
        reason = f"{said} by the slopes, but the long batches do not show it: short batches of the candidate were slow"
        return _inconclusive(reason, fresh, alpha=alpha, rule="gain_not_in_long_batches")
    if disturbance := doubts.disturbance(fresh, CONFIRMATION_ALPHA):
        return _inconclusive(f"{said}, but {disturbance}", fresh, alpha=alpha, rule="baseline_disturbed")
    bound = ""
    if found.interval and found.interval[0] <= 1:
        bound = f" (at least {wording.percent(100 * math.expm1(lower))}, one-sided)"
    return _timed(VerdictKind.FASTER, f"{said}, confirmed by {count} with new inputs{bound}", found)


def decide_over_incumbent(evidence: Evidence) -> Verdict | None:
    """Candidate against the best so far, over all pairs; None where that took no part or nothing is `faster`."""
    if decide(evidence).kind is not VerdictKind.FASTER:
        return None
    values = samples.values_of(evidence.plan, evidence.batches, evidence.fills)
    pairs = samples.pairs_of(evidence.plan, values, over=Side.INCUMBENT)
    if not pairs:
        return None
    found = sequence.estimate(pairs)
    reason = f"against the best so far: {wording.difference(found)}, by {wording.count(len(pairs), 'pair')}"
    finding = sequence.look(found, INCUMBENT_ALPHA)
    if finding is Finding.FASTER and doubts.shows_in_long_batches(pairs):
        return _timed(VerdictKind.FASTER, reason, found)
    if finding is Finding.SLOWER:
        return _timed(VerdictKind.SLOWER, reason, found)
    return _inconclusive(reason, pairs, alpha=INCUMBENT_ALPHA)


# Refusals -------------------------------------------------------------------------------------------------------------


def refusal(faults: Sequence[Fault]) -> Verdict | None:
    """The verdict of the first fault that makes it invalid, else of the first that makes it incorrect."""
    wrong_baseline = [fault for fault in faults if fault.side is Side.BASELINE and fault.kind is VerdictKind.INCORRECT]
    for fault in faults:
        if fault in wrong_baseline:
            reason = f"the baseline fails its own check: {fault.reason}{_WIDER if fault.rule == 'wrong_values' else ''}"
            return Verdict(VerdictKind.INVALID, reason, rule=fault.rule)
        if fault.kind is VerdictKind.INVALID:
            return Verdict(VerdictKind.INVALID, fault.reason, rule=fault.rule)
    return Verdict(faults[0].kind, faults[0].reason, rule=faults[0].rule) if faults else None


def _doubted(evidence: Evidence, gain: Verdict) -> Verdict | None:
    """A gain that may be made of something else than the function, by all of the evidence."""

    def but(reason: str, *, rule: str) -> Verdict:
        return _inconclusive(f"{gain.reason}, but {reason}", gain.pooled, alpha=CONFIRMATION_ALPHA, rule=rule)

    if doubts.is_chosen(evidence, gain):
        return but("its void batches are its own alone, and with them half of the gain is gone", rule="voids_on_one_side")
    if doubts.is_of_one_call(evidence, CONFIRMATION_ALPHA):
        return but("a batch of one call shows less than half of it: something is worked out once for all calls of a batch, or "
                   "all of them are worked out at once", rule="gain_not_in_one_call")
    if doubts.is_done_ahead(evidence):
        return but("the calls ahead of batches, which are not timed, take longer than the baseline's by half of what is gained",
                   rule="done_ahead")
    if doubts.is_within_copies(evidence, gain):
        return but(f"it is no more than copying the outputs takes ({evidence.copy_us:.3g} us a call), which a side can save by "
                   "writing where they are copied to", rule="gain_within_copies")
    return None


def _below_floor(values: Sequence[Value], floor_us: float | None) -> Verdict | None:
    """A time that the card's memory cannot reach: the wrong target where it is the baseline's, else no honest time."""
    least_us = max(floor_us or 0.0, samples.SMALLEST_US)
    for side, rule in ((Side.BASELINE, "wrong_target"), (Side.CANDIDATE, "below_physical_floor")):
        for stage in Stage:
            times = [value.us for value in values if value.side is side and value.stage is stage]
            if times and (median_us := statistics.median(times)) < least_us:
                reason = f"the {side}'s {median_us:.4g} us a call lie below the physical floor of {least_us:.4g} us"
                return Verdict(VerdictKind.INVALID, reason, rule=rule)
    return None


# Steps ----------------------------------------------------------------------------------------------------------------


def _confirmed(plan: Plan, earlier: Sequence[Pair]) -> tuple[tuple[Pair, ...], float]:
    """The confirmation set with which the last verify of this key ended, if it passed; the chance of error of the next set."""
    sets: list[tuple[Pair, ...]] = []
    for before, pair in zip((None, *earlier), earlier):  # noqa: B905 - the last has nothing behind it
        # numbers rise within a verify, and its confirmation comes last
        if before is None or pair.pair <= before.pair or (before.stage, pair.stage) == (Stage.CONFIRMATION, Stage.LOOK):
            sets.append(())
        sets[-1] += (pair,) if pair.stage is Stage.CONFIRMATION else ()
    standing: tuple[Pair, ...] = ()
    alpha, failed = CONFIRMATION_ALPHA, 0
    for each in sets:
        standing = each if confirm(plan, each, alpha=alpha).kind is VerdictKind.FASTER else ()
        if not standing and len(each) >= plan.confirmation_pairs:
            failed += 1
            alpha = sequence.confirmation_alpha(failed)
    return standing, alpha


def _look_step(plan: Plan, found: Estimate, alpha: float, pairs: Sequence[Pair], confirmation_alpha: float) -> Step | None:
    """Where a look leads; None where more pairs are to be had."""
    size = len(found.pairs)
    match sequence.look(found, alpha):
        case Finding.FASTER:
            return _confirmation_step(plan, _confirmation_size(plan, found, alpha), pairs, confirmation_alpha, seen=found)
        case Finding.SLOWER:
            return Step(None, 0, _slower(found, f", by {wording.count(size, 'pair')}"))
        case Finding.EQUIVALENT:
            reason = f"the same within 1 %: {wording.difference(found)}, by {wording.count(size, 'pair')}"
            return Step(None, 0, _inconclusive(reason, found.pairs, alpha=alpha))
    return None


def _confirmation_size(plan: Plan, found: Estimate, alpha: float) -> int:
    """How many fresh pairs a gain needs, fixed before they are measured: as many as found it, more where it was close.

    A close look may owe its passing to a spread that came out small by luck: as many pairs again would then fail.
    """
    size = len(found.pairs)
    reach = found.reach(alpha)
    is_close = reach is None or found.mean < CLOSE * reach
    wanted = sequence.next_look(sequence.next_look(size)) if is_close else size
    return max(min(wanted, plan.looks[-1]), plan.confirmation_pairs)


def _confirmation_step(plan: Plan, wanted: int, pairs: Sequence[Pair], alpha: float, *, seen: Estimate | None = None) -> Step:
    fresh = [pair for pair in pairs if pair.stage is Stage.CONFIRMATION]
    wanted = max(wanted, 2)
    if len(fresh) < wanted:
        return Step(Stage.CONFIRMATION, wanted)
    return Step(None, wanted, confirm(plan, fresh[:wanted], seen=seen, alpha=alpha))


# Verdicts -------------------------------------------------------------------------------------------------------------


def _timed(kind: VerdictKind, reason: str, found: Estimate) -> Verdict:
    return Verdict(
        kind, reason, speedup=found.speedup, interval=found.interval, pairs=len(found.pairs), pooled=found.pairs
    )


def _slower(found: Estimate, how: str) -> Verdict:
    return _timed(VerdictKind.SLOWER, f"{wording.difference(found)}{how}", found)


def _inconclusive(
    reason: str, pairs: Sequence[Pair], *, alpha: float | None = None, rule: str | None = None
) -> Verdict:
    """No decision, with what is known all the same."""
    if not pairs:
        return Verdict(VerdictKind.INCONCLUSIVE, reason, rule=rule)
    found = sequence.estimate(pairs)
    return Verdict(
        VerdictKind.INCONCLUSIVE,
        reason,
        rule=rule,
        speedup=found.speedup,
        interval=found.interval,
        equivalent=found.is_equivalent,
        smallest_effect_pct=None if alpha is None else found.smallest_effect_pct(alpha),
        pairs=len(found.pairs),
        pooled=found.pairs,
    )


def _nothing_seen(pairs: Sequence[Pair], looked: int, following: int) -> Verdict:
    """The verdict after the last look, or before the next one where this verify could not reach it."""
    found = sequence.estimate(pairs)
    low, high = found.interval or (0.0, math.inf)
    is_open = abs(found.mean) >= sequence.MIN_GAIN and not low <= 1 <= high  # by 99 %, and a look asks for more
    shown = "not certain enough, and asking again goes on" if is_open else "no difference shown"
    said = f"{shown}: {wording.difference(found)} after {wording.count(len(pairs), 'pair')}"
    if not looked:
        return _inconclusive(f"{said}; the next look comes at {following} pairs", pairs)
    alpha = sequence.alpha_at(looked)
    smallest_pct = found.smallest_effect_pct(alpha)
    seen = f"; {wording.percent(smallest_pct)} would have been seen" if smallest_pct is not None else ""
    return _inconclusive(said + seen, pairs, alpha=alpha)


def _unfinished(step: Step, pairs: Sequence[Pair], earlier: Sequence[Pair]) -> Verdict:
    done = [pair for pair in pairs if pair.stage is step.stage]
    what = "the confirmation" if step.stage is Stage.CONFIRMATION else "the next look"
    reason = f"stopped at {len(done)} of the {wording.count(step.pairs, 'pair')} that {what} needs"
    return _inconclusive(reason, done or (*earlier, *pairs), rule="unfinished")
