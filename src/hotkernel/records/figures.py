"""Writes a number for people, on the board and in the report; beside render.py the one place that rounds."""

from __future__ import annotations

from collections.abc import Sequence

from hotkernel.schema.roofline import Bound

UNKNOWN = "–"  # a cell with nothing known in it


def ms(value: float | None) -> str:
    """Four digits that count, never an exponent: a call takes from 2 us to minutes."""
    if value is None:
        return UNKNOWN
    digits = 4 - len(str(int(abs(value)))) if abs(value) >= 1 else 3
    while abs(value) < 1 and digits < 9 and abs(value) * 10**digits < 1000:
        digits += 1
    return f"{value:.{max(0, digits)}f} ms"


def duration(value_ms: float | None) -> str:
    """Four digits that count, in the unit that a person would choose."""
    if value_ms is None:
        return UNKNOWN
    for unit, in_ms in (("µs", 1e-3), ("ms", 1.0), ("s", 1e3)):
        value = value_ms / in_ms
        if abs(value) < 1000 or unit == "s":
            return f"{value:.{max(0, 4 - len(str(int(abs(value)))))}f}\u00a0{unit}"
    return UNKNOWN


def speedup(value: float | None, interval: Sequence[float] | None = None) -> str:
    """`12.439× (12.201–12.681)`."""
    if value is None:
        return UNKNOWN
    if interval is None or len(interval) != 2:
        return f"{value:.3f}×"
    return f"{value:.3f}× ({interval[0]:.3f}–{interval[1]:.3f})"


def short_speedup(value: float | None, interval: Sequence[float] | None = None) -> str:
    """The same for people: `12.4× (12.2–12.7)`, and `1.037× (1.024–1.050)`, where each digit counts."""
    if value is None:
        return UNKNOWN
    digits = 3 if value < 2 else 2 if value < 10 else 1 if value < 100 else 0
    if interval is None or len(interval) != 2:
        return f"{value:.{digits}f}×"
    return f"{value:.{digits}f}× ({interval[0]:.{digits}f}–{interval[1]:.{digits}f})"


def times(value: float) -> str:
    """A speedup in a sentence: `12.4 times as fast`, `3.7 % faster`, `4.2 % slower`."""
    if value >= 2:
        return f"{value:.3g} times as fast"
    change = 100 * (value - 1) if value >= 1 else 100 * (1 / value - 1)
    return f"{change:.1f}\u00a0% {'faster' if value >= 1 else 'slower'}"


def between(low: float, high: float) -> str:
    """The ends of a speedup's interval in a sentence, in the words of `times`."""
    if low >= 2:
        return f"between {low:.3g} and {high:.3g} times"
    return f"between {times(low)} and {times(high)}" if low < 1 or high >= 2 else \
        f"between {100 * (low - 1):.1f} and {100 * (high - 1):.1f}\u00a0%"


def percent(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.1f} %"


def share(value: float | None, bound: Bound | None) -> str:
    """Of a measured ceiling: `97.8 %`, `99.2 % (compute)` where that is no bandwidth."""
    return percent(value) + (" (compute)" if value is not None and bound is Bound.COMPUTE else "")


def watts(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:.0f} W"


def significant(value: float | None) -> str:
    """Four digits, with thousands apart."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
