"""Reasons to doubt a gain that the statistics allow: slow short batches, a disturbed baseline, chosen batches."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from hotkernel.judge import samples, sequence, wording
from hotkernel.judge.student import critical
from hotkernel.schema.verdict import Batch, Evidence, Fill, Mode, Pair, Plan, Side, Stage, Value, Verdict

# A batch's first call may cost so much more than the baseline's does, for what is cold: up to 10 us was seen of honest candidates
# on an H200, 40 us on a CPU. Where calls share inputs nothing is allowed: it is there that most is to be had by it.
COLD_US = {Mode.BATCHES: 12.0, Mode.LATENCY: 12.0, Mode.HOST: 50.0, Mode.CPU: 50.0}
CHAINED_GAIN_US = 4 * COLD_US[Mode.BATCHES]  # a gain so small must show in chains where the plan has some: nothing is cold there
LARGE_GAIN = 0.2  # of the baseline's time: a gain so large is in a single call beyond its noise, or is none
LONG_SHARE = 0.5  # of a gain must show in the long batches alone: else the short ones were slowed down
AHEAD_US = 300.0  # so much longer than the baseline's may the call ahead of a batch take, for what is cold, or half of the gain
DISTURBED = math.log(1.02)  # more than that slower beside the candidate than alone, and the baseline was disturbed
COPY_MARGIN = 1.5  # a copy in a side's process may take so much longer than in the oracle's
CHOSEN_ALPHA = 0.001  # by chance as likely: so many more void batches on the candidate's side than on the baseline's


def shows_in_long_batches(pairs: Sequence[Pair]) -> bool:
    """Whether at least half of a gain is there when only the long batches are read."""
    known = [(pair.long_log_ratio, pair.log_ratio) for pair in pairs if pair.long_log_ratio is not None]
    return not known or sum(long for long, _ in known) >= LONG_SHARE * sum(slope for _, slope in known)


def disturbance(pairs: Sequence[Pair], alpha: float) -> str | None:
    """What the candidate's presence did to the baseline, where that makes its gain: something ran beside the baseline."""
    known = [pair for pair in pairs if pair.alone_log_ratio is not None]
    if not known:
        return None
    slowed = sequence.estimate([replace(pair, log_ratio=pair.log_ratio - (pair.alone_log_ratio or 0.0)) for pair in known])
    lower = slowed.lower(alpha)
    if lower is not None and lower > DISTURBED:
        return f"the baseline was {wording.percent(100 * math.expm1(slowed.mean))} slower beside the candidate than alone"
    if sum(pair.alone_log_ratio or 0.0 for pair in known) < LONG_SHARE * sum(pair.log_ratio for pair in known):
        return "against the baseline as it was alone less than half of it is left"
    return None


def is_of_one_call(evidence: Evidence, alpha: float) -> bool:
    """Whether less than half of a gain is there in a batch of one call, or in chains where it needs them: something is worked out
    once for all calls of a batch, or all of them at once.

    One call is noisy, so the shortage of a small gain must be beyond noise: the baseline's, taken for both sides', since a side
    can make its own as large as it likes. A large one must be there, however noisy the machine is.
    """
    if evidence.chains or needs_chains(evidence.plan, evidence.batches, evidence.fills):
        return _lacks_in_chains(evidence, alpha)
    values = samples.values_of(evidence.plan, evidence.batches, evidence.fills) if evidence.plan.n1 == 1 else ()
    lacking, noise, gains = [], [], []
    cold_us = 0.0 if evidence.plan.is_shared or evidence.plan.links else COLD_US[evidence.plan.mode]
    for baseline, candidate in _confirming(values):
        if candidate.short_us is not None and baseline.short_us is not None:
            gain_us = baseline.us - candidate.us
            gains.append(gain_us / baseline.us)
            lacking.append(gain_us - (baseline.short_us - candidate.short_us) - max(LONG_SHARE * gain_us, cold_us))
            noise.append(LONG_SHARE * baseline.us - baseline.short_us)
    return _is_lacking(lacking, noise, gains, alpha)


def needs_chains(plan: Plan, batches: Sequence[Batch], fills: Sequence[Fill]) -> bool:
    """Whether a gain in a confirmation is so small that a single call, which is cold, hides it, and the plan has chains."""
    gains = [baseline.us - candidate.us for baseline, candidate in _confirming(samples.values_of(plan, batches, fills))]
    return bool(plan.links and gains) and samples.trimmed_mean(gains) <= CHAINED_GAIN_US


def _lacks_in_chains(evidence: Evidence, alpha: float) -> bool:
    """The same of chains, in which an input is made when the call before has ended: all calls are single ones there, and warm.
    Where half of the chains are missing nothing is shown."""
    values = samples.values_of(evidence.plan, evidence.batches, evidence.fills)
    by_slope = [(baseline.us, baseline.us - candidate.us) for baseline, candidate in _confirming(values)]
    chained = _confirming(samples.values_of(
        replace(evidence.plan, n1=min(evidence.plan.links), n2=max(evidence.plan.links)), evidence.chains))
    asked = {(batch.pair, batch.value) for batch in evidence.chains}
    if not by_slope:
        return False
    if len(chained) < max(2, len(asked) / 2):
        return True
    gain_us = samples.trimmed_mean([gain for _, gain in by_slope])
    lacking = [LONG_SHARE * gain_us - (baseline.us - candidate.us) for baseline, candidate in chained]
    return _is_lacking(lacking, [baseline.us for baseline, _ in chained], [gain / us for us, gain in by_slope], alpha)


def _is_lacking(lacking: Sequence[float], noise: Sequence[float], gains: Sequence[float], alpha: float) -> bool:
    """Whether what is lacking of a gain is more than noise, or anything where the gain is large."""
    error = samples.trimmed_error(noise) if noise else None
    if error is None:
        return False
    is_large = samples.trimmed_mean(gains) > LARGE_GAIN
    kept = len(noise) - 2 * (len(noise) // samples.TRIM_SHARE)
    return samples.trimmed_mean(lacking) > (0.0 if is_large else critical(alpha, kept - 1) * math.sqrt(2) * error)


def _confirming(values: Sequence[Value]) -> list[tuple[Value, Value]]:
    """The baseline's and the candidate's values of a confirmation that belong together."""
    sides = {(v.side, v.pair, v.value): v for v in values if v.stage is Stage.CONFIRMATION}
    return [(sides[Side.BASELINE, pair, number], value) for (side, pair, number), value in sides.items()
            if side is Side.CANDIDATE and (Side.BASELINE, pair, number) in sides]


def is_done_ahead(evidence: Evidence) -> bool:
    """Whether the calls ahead of batches, which are in no span, take longer than the baseline's by half of what is gained."""
    batches = [batch for batch in evidence.batches
               if batch.stage is Stage.CONFIRMATION and not batch.void and batch.ahead_us is not None]
    ahead = {side: [batch.ahead_us or 0.0 for batch in batches if batch.side is side]
             for side in (Side.BASELINE, Side.CANDIDATE)}
    values = samples.values_of(evidence.plan, evidence.batches, evidence.fills)
    gains = [baseline.us - candidate.us for baseline, candidate in _confirming(values)]
    if not all(ahead.values()) or not gains:
        return False
    gained_us = samples.trimmed_mean(gains) * statistics.fmean(batch.calls for batch in batches)
    more_us = statistics.fmean(ahead[Side.CANDIDATE]) - statistics.fmean(ahead[Side.BASELINE])
    return more_us > max(AHEAD_US, LONG_SHARE * gained_us)


def is_within_copies(evidence: Evidence, verdict: Verdict) -> bool:
    """Whether a gain is no more than what copying outputs costs: a side that writes where they are copied to saves that."""
    values = samples.values_of(evidence.plan, evidence.batches, evidence.fills) if evidence.copy_us else ()
    times = [value.us for value in values if value.side is Side.BASELINE and value.stage is Stage.CONFIRMATION]
    if not times or evidence.copy_us is None:
        return False
    return statistics.median(times) * (1 - 1 / (verdict.speedup or 1.0)) < COPY_MARGIN * evidence.copy_us


def is_chosen(evidence: Evidence, verdict: Verdict) -> bool:
    """Whether a gain is one of choice: a side that makes its slow batches void keeps the fast ones."""
    voids = _voids_of(evidence.batches, Stage.CONFIRMATION)
    mine, others = voids.get(Side.CANDIDATE, 0), voids.get(Side.BASELINE, 0)
    by_chance = sum(math.comb(mine + others, k) for k in range(mine, mine + others + 1)) / 2 ** (mine + others)
    if by_chance >= CHOSEN_ALPHA:
        return False
    every = with_voids(evidence.plan, evidence.batches)
    pairs = samples.pairs_of(evidence.plan, samples.values_of(evidence.plan, every, evidence.fills))
    numbers = {pair.pair for pair in verdict.pooled}
    found = [pair.log_ratio for pair in pairs if pair.stage is Stage.CONFIRMATION and pair.pair in numbers]
    return statistics.fmean(found) < LONG_SHARE * math.log(verdict.speedup or 1.0) if found else False


def with_voids(plan: Plan, batches: Sequence[Batch]) -> tuple[Batch, ...]:
    """The same batches with none void: each try of a value is a value of its own, so that nobody has chosen among them."""
    seen: dict[tuple[Stage, int, int, Side], int] = {}
    each = 1 if plan.n1 == 0 else 2
    tries = 1 + max((batch.value for batch in batches), default=0)
    made = []
    for batch in batches:
        key = batch.stage, batch.pair, batch.value, batch.side
        seen[key] = seen.get(key, -1) + 1
        made.append(replace(batch, value=batch.value + tries * (seen[key] // each), void=None))
    return tuple(made)


def _voids_of(batches: Sequence[Batch], stage: Stage) -> dict[Side, int]:
    """How many batches of each side were called void, of those that ran in this stage."""
    counts: dict[Side, int] = {}
    for batch in batches:
        if batch.stage is stage:
            counts[batch.side] = counts.get(batch.side, 0) + (batch.void is not None)
    return counts
