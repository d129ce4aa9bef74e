"""What a faster part does to the whole, and whether a measured gain is the one to be expected; measures nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hotkernel.judge import script_rounds
from hotkernel.schema.verdict import Measurement


@dataclass(frozen=True)
class Part:
    """A part of a step: how long its calls take in one, and how much faster they became, with the interval of that."""

    ms: float
    speedup: float
    low: float
    high: float


@dataclass(frozen=True)
class Expectation:
    """What the parts' speed-ups make of the whole, and what was measured: (least, likely, most) times faster.

    What was measured is null where there are too few runs to know how far off it may be; then nothing can agree.
    """

    predicted: tuple[float, float, float]
    measured: tuple[float, float, float] | None
    agrees: bool | None
    words: str


def whole_speedup(share: float, speedup: float) -> float | None:
    """Times faster that all of it is when a `share` of it (0 to 1) is `speedup` times faster; None where nothing is left."""
    left = 1 - min(max(share, 0.0), 1.0) * (1 - 1 / speedup)
    return 1 / left if left > 1e-9 else None


def expect(before: Measurement, after: Measurement, parts: Sequence[Part]) -> Expectation:
    """Hold the gain that rounds of runs show against Amdahl's: they agree where the ranges of milliseconds saved overlap."""
    saved = [sum(part.ms * (1 - 1 / getattr(part, name)) for part in parts) for name in ("low", "speedup", "high")]
    predicted = _ratios(before.mean_ms, saved)
    told = (f"{sum(part.ms for part in parts):.4g} of {before.mean_ms:.4g} ms of a step were replaced: by verify that "
            f"saves {saved[1]:.3g} ms ({saved[0]:.3g} to {saved[2]:.3g})")
    found = script_rounds.estimate(before.samples, after.samples)
    if found.interval is None:
        few = f"{told}; {len(found.pairs)} of a side are too few runs to hold that against"
        return Expectation(predicted, None, None, few)
    measured = (found.interval[0], found.speedup, found.interval[1])
    reached = [before.mean_ms * (1 - 1 / ratio) for ratio in measured]
    agrees = reached[0] <= saved[2] and saved[0] <= reached[2]
    told += f"; measured are {reached[1]:.3g} ms ({reached[0]:.3g} to {reached[2]:.3g})"
    words = f"{told}: {_agreement(saved, reached) if agrees else _disagreement(saved, reached)}"
    return Expectation(predicted, measured, agrees, words)


def _ratios(whole_ms: float, saved_ms: Sequence[float]) -> tuple[float, float, float]:
    """Times faster, were so much saved; infinite where all of it is."""
    least, likely, most = (whole_ms / (whole_ms - each) if each < whole_ms else math.inf for each in saved_ms)
    return least, likely, most


def _agreement(saved: Sequence[float], reached: Sequence[float]) -> str:
    hides = saved[0] > 0 >= reached[0]
    return "they agree, but so would no gain at all: too noisy to tell" if hides else "they agree"


def _disagreement(saved: Sequence[float], reached: Sequence[float]) -> str:
    if reached[2] < saved[0]:
        return ("less than expected: the step waits for something else (launches, the host), its calls have warm caches "
                "where verify's are cold, or the candidate costs more around the call than in it")
    return "more than expected: the candidate spares what lies around the call too, or something else was at work on the machine"
