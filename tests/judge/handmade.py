"""Evidence made by hand: what the referee would have saved for two sides of known times per call."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from hotkernel.schema.verdict import Batch, Evidence, Fill, Mode, Pair, Plan, Side, Stage

OVERHEAD_US = 40.0  # gate, flush and context switches: in every batch, in no figure
FILL_US = 9.0  # a slot's fill
CHECK_US = 7.0  # the check of one output
PLAN = Plan(Mode.BATCHES, n1=4, n2=24, values_per_pair=8, looks=(3, 5, 7, 10), confirmation_pairs=3, tick_us=0.5)
FILLS = tuple(Fill(calls, 40.0 + FILL_US * calls) for calls in (4, 24))

Clock = Callable[[Side, Stage, int], float]  # what a call takes, in us, in that pair


def span(us: float, calls: int) -> float:
    """A batch's span when a call takes `us`."""
    return OVERHEAD_US + 40.0 + (FILL_US + us) * calls


def batches_of(stage: Stage, pair: int, times: dict[Side, Sequence[float]], *, scale: float = 1.0) -> list[Batch]:
    """One pair's batches in ABBA order, each side's n-th value taking `times[side][n]` a call."""
    made = []
    for number in range(len(next(iter(times.values())))):
        sides = list(times) if number % 2 == 0 else list(reversed(times))
        for side in sides:
            for calls in (PLAN.n1, PLAN.n2) if number % 2 else (PLAN.n2, PLAN.n1):
                us = span(times[side][number], calls) * scale
                check = CHECK_US * calls * scale
                made.append(Batch(side, stage, pair, number, calls, us, at_s=0.02 * len(made), check_us=check))
    return made


def evidence(
    baseline: Sequence[float],
    candidate: Sequence[float],
    confirmation: Sequence[tuple[float, float]] = (),
    *,
    noise_us: float = 0.02,
    plan: Plan = PLAN,
    scale: float = 1.0,
    earlier: tuple[Pair, ...] = (),
) -> Evidence:
    """Look pairs whose processes take `baseline[i]` and `candidate[i]` us a call, then the confirmation's pairs."""
    rng = random.Random(5)
    made: list[Batch] = []
    looks = [(Stage.LOOK, pair) for pair in zip(baseline, candidate, strict=True)]
    for pair, (stage, (base, other)) in enumerate([*looks, *((Stage.CONFIRMATION, us) for us in confirmation)]):
        times = {
            Side.BASELINE: [base + rng.gauss(0, noise_us) for _ in range(plan.values_per_pair)],
            Side.CANDIDATE: [other + rng.gauss(0, noise_us) for _ in range(plan.values_per_pair)],
        }
        made += batches_of(stage, pair, times, scale=scale)
    fills = tuple(Fill(fill.calls, fill.span_us * scale) for fill in FILLS)
    return Evidence(plan, tuple(made), fills, earlier=earlier)


def gaps(stage: Stage, *percents: float, first: int = 0, within: float = 0.0005) -> tuple[Pair, ...]:
    """Pairs in which the candidate is about so many percent faster."""
    return tuple(Pair(stage, first + place, pct / 100, within, 8) for place, pct in enumerate(percents))


def prefixes(batches: Sequence[Batch]) -> Iterator[tuple[Batch, ...]]:
    """The batches as they stood after each whole pair."""
    for end in range(1, len(batches) + 1):
        last = end == len(batches)
        if last or (batches[end].stage, batches[end].pair) != (batches[end - 1].stage, batches[end - 1].pair):
            yield tuple(batches[:end])


def quiet(us: float, pairs: int, rng: random.Random | None = None) -> list[float]:
    """Processes that differ by some 0.05 %."""
    rng = rng or random.Random(1)
    return [us * (1 + rng.gauss(0, 0.0005)) for _ in range(pairs)]


def fresh(base: float, cand: float, pairs: int = 10) -> list[tuple[float, float]]:
    """Processes of a confirmation."""
    rng = random.Random(2)
    return list(zip(quiet(base, pairs, rng), quiet(cand, pairs, rng), strict=True))
