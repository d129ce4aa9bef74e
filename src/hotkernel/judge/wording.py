"""Says in words what an estimate says, for a verdict's reason; decides nothing."""

from __future__ import annotations

import math

from hotkernel.judge.sequence import Estimate


def difference(found: Estimate) -> str:
    """`3.1 % faster (99 %: 2.8 to 3.4 %)`, `12.3 times as fast (…)`, `4.0 % slower (…)`."""
    ratios = _directed(found)
    slower = found.mean < 0
    if ratios[0] >= 2:
        words = "times as long" if slower else "times as fast"
        said = f"{'takes ' if slower else ''}{_number(ratios[0])} {words}"
        return said if len(ratios) == 1 else f"{said} (99 %: {_number(ratios[1])} to {_number(ratios[2])})"
    gains = [100 * (ratio - 1) for ratio in ratios]
    digits = 1 if len(gains) == 1 or gains[2] - gains[1] >= 0.2 else 2
    numbers = [f"{0.0 if abs(gain) < 0.005 else gain:.{digits}f}" for gain in gains]
    said = f"{numbers[0]} % {'slower' if slower else 'faster'}"
    return said if len(gains) == 1 else f"{said} (99 %: {numbers[1]} to {numbers[2]} %)"


def count(number: int, noun: str) -> str:
    """`1 pair`, `3 pairs`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def percent(number: float) -> str:
    """`0.62 %`, `3.1 %`."""
    return f"{number:.2f} %" if number < 1 else f"{number:.1f} %"


def _directed(found: Estimate) -> list[float]:
    """The ratio that is at least 1, then its interval from low to high, where there is one."""
    sign = -1.0 if found.mean < 0 else 1.0
    ratios = [math.exp(abs(found.mean))]
    if found.interval is not None:
        ratios += sorted(end**sign for end in found.interval)
    return ratios


def _number(ratio: float) -> str:
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.1f}" if ratio < 100 else f"{ratio:.0f}"
