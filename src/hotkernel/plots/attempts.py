"""Draws a target's attempts in time: each one's speedup with its interval, and the best so far; pure, writes no file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from hotkernel.plots.canvas import BEST, INK, MARKER, VERDICT, Kind, Sheet, paint
from hotkernel.schema.report import Attempt
from hotkernel.schema.verdict import VerdictKind

ROOM = 1.25  # times, above the highest and below the lowest
AT_LEAST = 1.05  # times around the baseline that are always shown
TICKS = 12
AT_FOOT = 0.04  # of the height: where those without a time stand


def attempts(tries: Sequence[Attempt], sheet: Sheet, kind: Kind, *, name: str = "attempts") -> bytes:
    """The plot. Raises ImportError without matplotlib."""
    low, high = limits(tries)

    def draw(axes: Any) -> None:
        axes.set(xlabel="attempt, in order of time", ylabel="times as fast as the baseline", yscale="log",
                 ylim=(low, high), xlim=(0.4, len(tries) + 0.6))
        axes.grid(True, axis="y", which="major")
        axes.set_yticks(ticks(low, high))
        axes.minorticks_off()
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.4g}×")
        step = math.ceil(len(tries) / TICKS)
        axes.set_xticks(range(1, len(tries) + 1, step), [f"#{number}" for number in range(1, len(tries) + 1, step)])
        axes.axhline(1.0, color=INK, linewidth=1)
        _best(axes, tries)
        for verdict in VerdictKind:
            _points(axes, [each for each in tries if each.verdict is verdict], verdict)
        axes.figure.legend(loc="outside upper left", frameon=False, fontsize="small",
                           ncols=2 if len(axes.get_legend_handles_labels()[0]) in (2, 4) else 3)

    return paint(draw, sheet, kind, name=name)


def limits(tries: Sequence[Attempt]) -> tuple[float, float]:
    """What the axis shows: every speedup and interval, and the baseline."""
    ends = [end for each in tries for end in (each.speedup, *(each.interval or ())) if end and end > 0]
    low, high = min([1 / AT_LEAST, *ends]), max([AT_LEAST, *ends])
    room = min(ROOM, math.sqrt(high / low))
    return low / room, high * room


def ticks(low: float, high: float) -> list[float]:
    """A few round speedups within the axis, 1 among them."""
    if high / low < 3:
        step = next(step for step in (0.02, 0.05, 0.1, 0.2, 0.5) if (high - low) / step <= 7)
        return [round(step * number, 4) for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    digits = (1, 1.5, 2, 3, 5, 7) if high / low < 12 else (1, 2, 5)
    fine = [digit * 10.0**decade for decade in decades for digit in digits]
    coarse = fine if high / low < 1000 else [10.0**decade for decade in decades]
    return [tick for tick in coarse if low <= tick <= high]


def _best(axes: Any, tries: Sequence[Attempt]) -> None:
    """The speedup in force, as steps."""
    kept = [(each.number, each.speedup) for each in tries if each.is_kept and each.speedup]
    if kept:
        numbers, speedups = [number for number, _ in kept], [speedup for _, speedup in kept]
        axes.step([*numbers, len(tries) + 0.6], [*speedups, speedups[-1]], where="post", color=BEST, linewidth=1.5,
                  linestyle=":", label="best so far")


def _points(axes: Any, tries: Sequence[Attempt], verdict: VerdictKind) -> None:
    """One verdict's attempts; those that have no speedup stand at the foot."""
    if not tries:
        return
    colour, marker = VERDICT[verdict.value], MARKER[verdict.value]
    timed = [each for each in tries if each.speedup]
    for each in timed:
        if each.interval and each.speedup:
            axes.plot([each.number] * 2, [max(end, 1e-6) for end in each.interval], color=colour, linewidth=2)
    axes.plot([each.number for each in timed], [each.speedup for each in timed], linestyle="none", marker=marker, color=colour,
              markersize=7, label=verdict.value)
    axes.plot([each.number for each in tries if not each.speedup], [AT_FOOT] * (len(tries) - len(timed)), linestyle="none",
              marker=marker, color=colour, markersize=7, transform=axes.get_xaxis_transform())
