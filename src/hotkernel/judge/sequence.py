"""The statistics behind the verdict: what pairs of processes estimate, and when they are looked at; decides nothing.

The unit is the pair of processes, never the single value. A key's pairs are looked at when there are 3, 5, 7, 10, 15
and then 20, 30, 40 … of them, over all verifies together. The chances spent at the first four add up to 0.5 %, those of
all later looks for ever to 0.05 % more: 0.55 % bounds the chance of one wrong look, however often somebody asks.
"""

from __future__ import annotations

import enum
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from hotkernel.judge.student import critical
from hotkernel.schema.verdict import Pair

FIRST_LOOKS = {3: 0.0005, 5: 0.001, 7: 0.0015, 10: 0.002}  # pairs -> alpha, one-sided
LATER_ALPHA = 0.0005  # all later looks together: the k-th spends 1/(k(k+1)) of it
CONFIRMATION_ALPHA = 0.01  # one-sided, of a key's first confirmation
MIN_GAIN = math.log(1.005)  # half a percent: less is not worth a change
EQUIVALENT = math.log(1.01)
SMALLEST_SD = 1e-4  # pairs that agree closer than 0.01 % do so by chance, or by a clock's coarseness
LARGEST_LOG = 700.0  # of a number that a float can hold
INTERVAL_ALPHA = 0.005  # at each end: 99 % inside


class Finding(enum.StrEnum):
    """What one look at the pairs says."""

    FASTER = "faster"
    SLOWER = "slower"
    EQUIVALENT = "equivalent"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Estimate:
    """What pairs say together, in logs of baseline's time over candidate's: above 0 the candidate is faster."""

    pairs: tuple[Pair, ...]
    mean: float
    error: float | None  # standard error; null for a single pair, whose fellows are unknown
    means: int = 1  # taken of the pairs: each costs the spread a degree of freedom

    @property
    def speedup(self) -> float:
        return math.exp(self.mean)

    @property
    def interval(self) -> tuple[float, float] | None:
        """99 %, of the speedup."""
        reach = self.reach(INTERVAL_ALPHA)
        return None if reach is None else (_exp(self.mean - reach), _exp(self.mean + reach))

    def reach(self, alpha: float) -> float | None:
        """How far from the mean a one-sided bound of chance `alpha` lies."""
        return None if self.error is None else critical(alpha, len(self.pairs) - self.means) * self.error

    def lower(self, alpha: float) -> float | None:
        """The one-sided lower bound of chance `alpha`."""
        reach = self.reach(alpha)
        return None if reach is None else self.mean - reach

    @property
    def is_equivalent(self) -> bool | None:
        """Whether the 99 % interval lies inside ±1 %."""
        reach = self.reach(INTERVAL_ALPHA)
        return None if reach is None else abs(self.mean) + reach < EQUIVALENT

    def smallest_effect_pct(self, alpha: float) -> float | None:
        """The least gain that a test of chance `alpha` would have seen with this spread, in percent."""
        reach = self.reach(alpha)
        return None if reach is None else 100 * math.expm1(min(max(reach, MIN_GAIN), LARGEST_LOG))


def estimate(pairs: Sequence[Pair]) -> Estimate:
    """The mean of the pairs' log ratios with its standard error.

    Their variance is at least what the values inside the pairs explain: three pairs may agree by chance.
    """
    logs = [pair.log_ratio for pair in pairs]
    if len(logs) < 2:
        return Estimate(tuple(pairs), statistics.fmean(logs), None)
    within = [pair.within_sd**2 for pair in pairs if pair.within_sd is not None]
    floor = max(statistics.fmean(within) if within else 0.0, SMALLEST_SD**2)
    return Estimate(
        tuple(pairs), statistics.fmean(logs), math.sqrt(max(statistics.variance(logs), floor) / len(logs))
    )


def look(found: Estimate, alpha: float) -> Finding:
    """What the pairs say at a look: a difference is tried before equivalence."""
    reach = found.reach(alpha)
    if reach is None:
        return Finding.NOTHING
    if abs(found.mean) >= MIN_GAIN and abs(found.mean) > reach:
        return Finding.FASTER if found.mean > 0 else Finding.SLOWER
    return Finding.EQUIVALENT if found.is_equivalent else Finding.NOTHING


def next_look(pairs: int) -> int:
    """The number of pairs at the first look that comes after `pairs`."""
    for size in (*FIRST_LOOKS, 15):
        if size > pairs:
            return size
    return 10 * (pairs // 10 + 1)


def alpha_at(pairs: int) -> float:
    """The one-sided chance of error that the look at `pairs` pairs spends; zero where there is no look."""
    if pairs in FIRST_LOOKS:
        return FIRST_LOOKS[pairs]
    if pairs < 15 or (pairs != 15 and pairs % 10):
        return 0.0
    later = max(pairs // 10, 1)  # 15 is the first of the later looks, 20 the second
    return LATER_ALPHA / (later * (later + 1))


def confirmation_alpha(failed: int) -> float:
    """The chance of error of a confirmation after so many that failed; all of them together have twice the first's.

    A candidate that cheats in the looks alone would otherwise have a new chance each time that somebody asks.
    """
    return 2 * CONFIRMATION_ALPHA / ((failed + 1) * (failed + 2))


def looks_within(pairs: int) -> tuple[int, ...]:
    """The looks that a verify of at most `pairs` pairs can have, for its plan; three pairs are the least."""
    sizes = [3]
    while (size := next_look(sizes[-1])) <= pairs:
        sizes.append(size)
    return tuple(sizes)


def _exp(log: float) -> float:
    """Its exponential, short of what a float can hold: two wild pairs have an interval without end."""
    return math.exp(max(-LARGEST_LOG, min(log, LARGEST_LOG)))
