"""How much is measured: calls a batch, values a pair, slots, and when they are enough; runs nothing."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

from hotkernel.schema.verdict import Batch, Mode, Plan, Side

LOOKS = (3, 5, 7, 10)
VALUES_PER_PAIR = 8
CONFIRMATION_PAIRS = 3
# between the two batches of a value
MIN_WORK_US = {Mode.BATCHES: 720.0, Mode.LATENCY: 2_000.0, Mode.HOST: 6_000.0, Mode.CPU: 6_000.0}
MIN_CALLS = {Mode.BATCHES: 8, Mode.LATENCY: 8, Mode.HOST: 3, Mode.CPU: 3}
BY_REFEREES_CLOCK = (Mode.HOST, Mode.CPU)
MAX_BATCH_US = 20_000.0  # a longer batch tells no more and costs the user's time
MAX_CALLS = 240  # the launch queue holds about a thousand; a call may launch several kernels
FEW_CALLS = 3  # of calls that launch a hundred kernels each, so that a batch is queued whole all the same
CPU_MAX_CALLS = 20
MEMORY_SHARE = 0.25
LONG_PAIR_US = 3_000_000.0  # a pair longer than this takes fewer values
SHORT = 1  # calls in the shorter batch of a value
LINKS = 2, 8  # calls of the two chains
JITTER = 0.1  # n2 is drawn this far around the plan, so that no call knows which is the last
CUDA_TICK_US = 0.5  # CUDA's events
CPU_TICK_US = 0.1
PLAIN, PLAIN_SPREAD = 0.2, 0.25  # log ratio that needs no more values, where those so far lie within this part of it
PLAINER = math.log(2)  # one that needs no more than two values, in a look: what is said of a gain is the confirmation's
FAR_SLOWER = 24.0  # times: beyond what the judge asks for to end early, so that it does


@dataclass(frozen=True)
class Wanted:
    """What the caller asked for."""

    looks: tuple[int, ...] = LOOKS
    confirmation_pairs: int = CONFIRMATION_PAIRS
    values_per_pair: int = VALUES_PER_PAIR


def make_plan(mode: Mode, baseline_us: float, entry_bytes: int, free_bytes: int, wanted: Wanted, *,
              is_shared: bool = False, most: int = MAX_CALLS) -> Plan:
    """The plan for a baseline that takes about `baseline_us`; `entry_bytes` is what one slot costs with all its copies.

    Short batches are of one call: what is worked out once for all calls of a batch shows there. No batch has more than `most`.
    """
    us = max(baseline_us, 0.5)
    most = min(most, CPU_MAX_CALLS if mode in BY_REFEREES_CLOCK else MAX_CALLS)
    between = max(-(-MIN_WORK_US[mode] // us), MIN_CALLS[mode])
    between = int(min(between, most - SHORT, max(2.0, MAX_BATCH_US / us)))
    if us > MAX_BATCH_US:
        between = 1
    notes: list[str] = []
    fit = int(MEMORY_SHARE * free_bytes // max(entry_bytes, 1) // 2)  # a pool of n1 + n2, and slots of n2
    if SHORT + between > fit:
        between = max(1, fit - SHORT)
        notes.append(f"memory holds {fit} calls at once, so batches are of {SHORT} and {SHORT + between}")
    n1, n2 = SHORT, SHORT + between
    values = wanted.values_per_pair
    while values > 2 and (n1 + n2) * us * values * 2 > LONG_PAIR_US:
        values -= 2
    if values < wanted.values_per_pair:
        notes.append(f"a call takes {us / 1000:.0f} ms, so a pair takes {values} values instead of {wanted.values_per_pair}")
    links = LINKS if mode is Mode.BATCHES and not is_shared and n2 >= max(LINKS) else ()
    return Plan(mode=mode, n1=n1, n2=n2, is_shared=is_shared, links=links, values_per_pair=values, looks=wanted.looks,
                confirmation_pairs=wanted.confirmation_pairs, slots=top_calls(n2),
                tick_us=CPU_TICK_US if mode in BY_REFEREES_CLOCK else CUDA_TICK_US, notes=tuple(notes))


def are_few_enough(plan: Plan) -> bool:
    """Whether a call is so long that batches of FEW_CALLS tell its time, too."""
    return plan.n2 <= SHORT + MIN_CALLS[plan.mode]


def top_calls(n2: int) -> int:
    """The most calls that a batch drawn around `n2` can have."""
    return n2 + int(n2 * JITTER)


def draw_calls(plan: Plan, chance: random.Random) -> tuple[int, int]:
    """n1 and n2 of one value, the longer drawn around the plan."""
    n2 = plan.n2 + chance.randint(-int(plan.n2 * JITTER), int(plan.n2 * JITTER))
    return plan.n1, max(n2, plan.n1 + 1)


def is_plain(batches: Sequence[Batch], beyond: float = PLAIN) -> bool:
    """Whether every value so far says that the candidate is much faster, or much slower, and by about as much.

    Half of a pair's values find that as surely as all of them; what one pair says of another is not touched by it.
    """
    spans: dict[int, dict[Side, dict[int, float]]] = {}
    for batch in batches:
        if batch.void is None and batch.side in (Side.BASELINE, Side.CANDIDATE):
            spans.setdefault(batch.value, {}).setdefault(batch.side, {})[batch.calls] = batch.span_us
    logs = []
    for sides in spans.values():
        slopes = [(by_calls[max(by_calls)] - by_calls[min(by_calls)]) / (max(by_calls) - min(by_calls))
                  for by_calls in sides.values() if len(by_calls) > 1]
        if len(slopes) == 2 and min(slopes) > 0:
            logs.append(math.log(slopes[0] / slopes[1]) * (1 if next(iter(sides)) is Side.BASELINE else -1))
    return len(logs) > 1 and min(map(abs, logs)) > beyond and max(logs) - min(logs) < PLAIN_SPREAD * min(map(abs, logs))


def is_far_slower(batches: Sequence[Batch]) -> bool:
    """Whether the longest batches say that the candidate is far slower than the baseline: more of them tell no more."""
    calls_us = {side: max(((batch.calls, batch.span_us / batch.calls) for batch in batches
                           if batch.side is side and batch.void is None), default=(0, None))[1]
                for side in (Side.BASELINE, Side.CANDIDATE)}
    baseline_us, candidate_us = calls_us.values()
    return baseline_us is not None and candidate_us is not None and candidate_us > FAR_SLOWER * baseline_us
