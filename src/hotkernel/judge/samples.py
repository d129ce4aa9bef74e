"""Makes times per call out of batches, and pairs and measurements out of times; decides nothing.

Everything about one pair of processes is worked out from that pair's own batches, so that a pair says the same while a
verify runs and when its evidence is read again years later. The fills must be complete before the first pair.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hotkernel.schema.verdict import Batch, Fill, Measurement, Pair, Plan, Side, Stage, Value

# NVML's clocks-event reasons under which a time is no time: hardware slowdown 0x08, software thermal 0x20, hardware
# thermal 0x40, power brake 0x80. The software power cap 0x04 is steady state (docs/timing.md): flagged, not dropped.
VOID_REASONS = 0x08 | 0x20 | 0x40 | 0x80
SMALLEST_US = 0.001  # stands for a time that noise made zero or negative: a logarithm needs one, the floor refuses it
TRIM_SHARE = 4  # one in four is cut at each end: two of eight values may be anything
NORMAL_99 = 2.5758293035489  # two-sided 99 % of a normal variable

_Key = tuple[Stage, int]  # one pair of processes


@dataclass(frozen=True)
class Resolution:
    """What two equal sides may differ by in this comparison (99 %), and the spread of one value behind it."""

    us: float
    pct: float
    one_value_us: float  # standard deviation of a single value within its process


def is_void(batch: Batch) -> bool:
    """Whether `batch` counts for nothing: said so, or taken while the hardware held the clock down."""
    return batch.void is not None or is_throttled(batch)


def is_throttled(batch: Batch) -> bool:
    """Whether the hardware held the clock down during `batch`."""
    return batch.throttle_mask is not None and bool(batch.throttle_mask & VOID_REASONS)


def values_of(plan: Plan, batches: Sequence[Batch], fills: Sequence[Fill] = ()) -> tuple[Value, ...]:
    """Every side's time per call, in the order measured.

    `batches` are in the order they ran. A void batch takes with it all that was measured under its value's number so
    far, the partners' batches included; what follows under that number is the repeat. A value that lacks a batch of
    any side that its pair has is left out on every side.
    """
    values: list[Value] = []
    for key, of_pair in _by_pair(batches).items():
        sides = {batch.side for batch in of_pair}
        whole = {number: spans for number, spans in _by_value(plan, of_pair).items() if spans.keys() == sides}
        whole = _with_late_work(plan, whole, fills)
        for number, spans in whole.items():
            for side, batch_set in spans.items():
                values.append(Value(side, key[0], key[1], number, *_per_call(batch_set, fills)))
    return tuple(values)


def pairs_of(
    plan: Plan, values: Sequence[Value], *, over: Side = Side.BASELINE, under: Side = Side.CANDIDATE
) -> tuple[Pair, ...]:
    """What each pair of processes says of `over` against `under`, in the order measured."""
    grouped: dict[_Key, dict[int, dict[Side, Value]]] = {}
    alone: dict[int, list[float]] = {}
    for value in values:
        if value.stage is not Stage.ALONE:
            grouped.setdefault((value.stage, value.pair), {}).setdefault(value.value, {})[value.side] = value
        elif value.side is over:
            alone.setdefault(value.pair, []).append(value.us)
    pairs = []
    for key, numbered in grouped.items():
        both = [(sides[over], sides[under]) for sides in numbered.values() if over in sides and under in sides]
        if both:
            pairs.append(_pair(plan, key, both, alone.get(key[1], ())))
    return tuple(pairs)


def measurement_of(values: Sequence[Value], side: Side, *, stage: Stage | None = None) -> Measurement | None:
    """One side's times per call in ms, of one stage or of all; None where there is none."""
    return measure([value.us / 1000 for value in values if value.side is side
                    and (value.stage is stage or (stage is None and value.stage is not Stage.ALONE))])


def measure(samples_ms: Sequence[float]) -> Measurement | None:
    """Count, mean, deviation of a sample (n-1), range and median; None where there is none."""
    if not samples_ms:
        return None
    return Measurement(
        n=len(samples_ms),
        mean_ms=statistics.fmean(samples_ms),
        std_ms=statistics.stdev(samples_ms) if len(samples_ms) > 1 else None,
        min_ms=min(samples_ms),
        max_ms=max(samples_ms),
        median_ms=statistics.median(samples_ms),
        samples=tuple(samples_ms),
    )


def resolution_of(plan: Plan, values: Sequence[Value]) -> Resolution | None:
    """What two sides as alike as the baseline is to itself may differ by here; None for fewer than two values.

    Its variance is that of the pairs' means, and at least what the spread of single values, or the clock, explains.
    """
    by_pair: dict[_Key, list[float]] = {}
    for value in values:
        if value.side is Side.BASELINE and value.stage is not Stage.ALONE:
            by_pair.setdefault((value.stage, value.pair), []).append(value.us)
    one_value_us = _spread_within(list(by_pair.values()))
    if one_value_us is None:
        return None
    means = [statistics.fmean(times) for times in by_pair.values()]
    between = statistics.variance(means) if len(means) > 1 else 0.0
    explained = one_value_us**2 * len(means) / sum(len(times) for times in by_pair.values())
    us = NORMAL_99 * math.sqrt(2 * max(between, explained, _tick_us(plan) ** 2) / len(means))
    return Resolution(us=us, pct=100 * us / max(statistics.fmean(means), SMALLEST_US), one_value_us=one_value_us)


def _spread_within(groups: Sequence[Sequence[float]]) -> float | None:
    """The standard deviation of single values about their own group's mean."""
    degrees = sum(len(group) - 1 for group in groups)
    if degrees < 1:
        return None
    squares = sum(statistics.variance(group) * (len(group) - 1) for group in groups if len(group) > 1)
    return math.sqrt(squares / degrees)


# From batches to values -----------------------------------------------------------------------------------------------


def _by_pair(batches: Iterable[Batch]) -> dict[_Key, list[Batch]]:
    grouped: dict[_Key, list[Batch]] = {}
    for batch in batches:
        grouped.setdefault((batch.stage, batch.pair), []).append(batch)
    return grouped


def _by_value(plan: Plan, batches: Iterable[Batch]) -> dict[int, dict[Side, list[Batch]]]:
    """The batches that make each value of a pair, by side: the short and the long one, or the one of a single count."""
    numbered: dict[int, dict[Side, list[Batch]]] = {}
    for batch in batches:
        kept = numbered.setdefault(batch.value, {})
        if is_void(batch):
            kept.clear()
        else:
            kept.setdefault(batch.side, []).append(batch)
    wanted = 1 if plan.n1 == 0 else 2  # n1 = 0: memory held one count only, and a fill by an empty worker is the other
    whole: dict[int, dict[Side, list[Batch]]] = {}
    for number, kept in numbered.items():
        for side, of_side in kept.items():
            chosen = sorted(of_side[-wanted:], key=lambda batch: batch.calls)
            if len(chosen) == wanted and (wanted == 1 or chosen[0].calls < chosen[1].calls):
                whole.setdefault(number, {})[side] = chosen
    return whole


def _with_late_work(
    plan: Plan, whole: Mapping[int, dict[Side, list[Batch]]], fills: Sequence[Fill]
) -> dict[int, dict[Side, list[Batch]]]:
    """The same batches, with the end moved to stamp2 for a side whose outputs take longer to check than the baseline's.

    Work put off beyond DONE shows in the check. The check's own time, which is the baseline's, is taken off again.
    """
    moved = {number: dict(spans) for number, spans in whole.items()}
    own = [per_call for spans in whole.values() if (per_call := _check_us(spans.get(Side.BASELINE))) is not None]
    times = [_per_call(spans[Side.BASELINE], fills)[0] for spans in whole.values() if Side.BASELINE in spans]
    if not own:
        return moved
    allowed_us = max(_noise_us(own), _noise_us(times), _tick_us(plan))
    for side in {side for spans in whole.values() for side in spans} - {Side.BASELINE}:
        theirs = [per_call for spans in whole.values() if (per_call := _check_us(spans.get(side))) is not None]
        if theirs and statistics.median(theirs) - statistics.median(own) > allowed_us:
            for spans in moved.values():
                spans[side] = [_ended_at_stamp2(batch, statistics.median(own)) for batch in spans[side]]
    return moved


def _check_us(of_side: Sequence[Batch] | None) -> float | None:
    """The check's time per output in the longer batch; None where the device did not time it."""
    if not of_side or of_side[-1].check_us is None:
        return None
    return of_side[-1].check_us / of_side[-1].calls


def _noise_us(times: Sequence[float]) -> float:
    """What the medians of two equal lists like `times` may differ by; with one time, a hundredth of it."""
    if len(times) < 2:
        return abs(times[0]) / 100 if times else 0.0
    # a median's error is 1.25 times a mean's
    return NORMAL_99 * 1.25 * statistics.stdev(times) * math.sqrt(2 / len(times))


def _ended_at_stamp2(batch: Batch, own_check_us: float) -> Batch:
    late_us = 0.0 if batch.check_us is None else batch.check_us - own_check_us * batch.calls
    return replace(batch, span_us=batch.span_us + late_us)


def _per_call(chosen: Sequence[Batch], fills: Sequence[Fill]) -> tuple[float, float, float | None]:
    """The time per call by the slope between two batches, by the longer batch alone, and by the shorter."""
    spans = [batch.span_us - fill_us(fills, batch.calls) for batch in chosen]
    long_us = spans[-1] / chosen[-1].calls
    if len(chosen) == 1:
        return long_us, long_us, None
    return (spans[1] - spans[0]) / (chosen[1].calls - chosen[0].calls), long_us, spans[0] / chosen[0].calls


def fill_us(fills: Sequence[Fill], calls: int) -> float:
    """What filling `calls` slots costs: the median of what was measured, or a line through the two nearest counts.

    No fills at all means that filling lies outside of the span. Raises ValueError where one count cannot tell another.
    """
    if not fills:
        return 0.0
    spans: dict[int, list[float]] = {}
    for fill in fills:
        spans.setdefault(fill.calls, []).append(fill.span_us)
    if calls in spans:
        return statistics.median(spans[calls])
    if len(spans) < 2:
        raise ValueError(f"fills of {min(spans)} slots do not say what {calls} cost")
    low, high = sorted(sorted(spans, key=lambda count: (abs(count - calls), count))[:2])
    low_us, high_us = statistics.median(spans[low]), statistics.median(spans[high])
    return low_us + (high_us - low_us) * (calls - low) / (high - low)


# From values to pairs -------------------------------------------------------------------------------------------------


def _pair(plan: Plan, key: _Key, both: Sequence[tuple[Value, Value]], alone_us: Sequence[float]) -> Pair:
    ratios = [math.log(_positive(over.us) / _positive(under.us)) for over, under in both]
    tick_us = _tick_us(plan)
    tick = math.hypot(*(tick_us / _positive(statistics.median(v.us for v in side)) for side in zip(*both, strict=True)))
    error = trimmed_error(ratios)
    if error is not None:
        error = math.hypot(error, tick)
    elif tick > 0:
        error = tick
    ratio = trimmed_mean(ratios)
    return Pair(key[0], key[1], ratio, error, len(ratios), _long_log_ratio(both), _alone_log_ratio(ratio, both, alone_us))


def _alone_log_ratio(ratio: float, both: Sequence[tuple[Value, Value]], alone_us: Sequence[float]) -> float | None:
    """The log ratio, had `over` been as fast beside the others as it was before they began; None where that is not known."""
    if not alone_us:
        return None
    beside = trimmed_mean([math.log(_positive(over.us)) for over, _ in both])
    return ratio - (beside - trimmed_mean([math.log(_positive(us)) for us in alone_us]))


def _long_log_ratio(both: Sequence[tuple[Value, Value]]) -> float | None:
    """The log ratio, had the candidate's time been read off its long batches alone, with the baseline's overheads.

    A side that slows its short batches down gets a flatter slope, but no shorter long batches.
    """
    saved = [
        over.long_us - under.long_us for over, under in both if over.long_us is not None and under.long_us is not None
    ]
    if len(saved) < len(both):
        return None
    own_us = _positive(statistics.median(over.us for over, _ in both))
    return math.log(own_us / _positive(own_us - statistics.median(saved)))


def trimmed_mean(numbers: Sequence[float]) -> float:
    """The mean without the lowest and the highest quarter."""
    cut = len(numbers) // TRIM_SHARE
    return statistics.fmean(sorted(numbers)[cut : len(numbers) - cut])


def trimmed_error(numbers: Sequence[float]) -> float | None:
    """The standard error of `trimmed_mean` (Yuen's, from the winsorised variance); None for one number."""
    count, cut = len(numbers), len(numbers) // TRIM_SHARE
    if count < 2:
        return None
    ranked = sorted(numbers)
    winsorised = [min(max(number, ranked[cut]), ranked[count - 1 - cut]) for number in ranked]
    kept = count - 2 * cut
    return math.sqrt(statistics.variance(winsorised) * (count - 1) / (kept * (kept - 1)))


def _positive(us: float) -> float:
    return max(us, SMALLEST_US)


def _tick_us(plan: Plan) -> float:
    """What one tick of the clock is worth in a time per call."""
    return plan.tick_us / (plan.n2 - plan.n1)
