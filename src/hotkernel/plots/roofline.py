"""Draws a card's roofs with kernels under them, and bandwidths where no flops are known; pure, writes no file."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from hotkernel.plots.canvas import BEST, INK, REAL, SHEET, VERDICT, Kind, Sheet, paint
from hotkernel.schema.report import Attempt
from hotkernel.schema.roofline import PlottedKernel, Roofline

DECADES_LEFT, DECADES_RIGHT = 2.0, 1.3  # of the ridge, that are always shown
APART = 0.06  # of the axes' height, and of their width: kernels closer than this share one label
NUMBERS_APART = 0.025  # the same where labels are numbers
NAMED, LABEL_LINE = 8, 44  # kernels that one label names, and characters of its line
BARS = 30  # bandwidths shown, the newest


@dataclass(frozen=True)
class Frame:
    """What the axes show, in FLOP per byte and TFLOP/s, in quarters of a decade: the ridge, both its sides and every kernel."""

    x: tuple[float, float]
    y: tuple[float, float]

    @classmethod
    def around(cls, roofs: Roofline, kernels: Sequence[PlottedKernel]) -> Frame:
        peak, gbps = roofs.peak_tflops or 1.0, roofs.peak_bandwidth_gbps or 1.0
        ridge = math.log10(peak * 1e3 / gbps)
        xs = [ridge - DECADES_LEFT, ridge + DECADES_RIGHT, *(math.log10(each.flops / each.bytes) for each in kernels)]
        ys = [math.log10(peak) + 0.2, math.log10(gbps / 1e3) + min(xs), *(math.log10(tflops(each)) for each in kernels)]
        return cls(_around(xs), _around(ys))

    def height(self, value: float) -> float:
        """Where a rate lies between the frame's bottom, 0, and its top, 1."""
        return _share(value, self.y)

    def across(self, value: float) -> float:
        """Where an intensity lies between the frame's left, 0, and its right, 1."""
        return _share(value, self.x)


def roofline(roofs: Roofline, kernels: Sequence[PlottedKernel], sheet: Sheet, kind: Kind, *, name: str = "roofline",
             title: str = "", key: bool = False) -> bytes:
    """The plot; with `key` kernels are numbers there, whose names stand beside it. Raises ValueError where a roof is unknown,
    ImportError without matplotlib."""
    if not roofs.peak_tflops or not roofs.peak_bandwidth_gbps:
        raise ValueError(f"no peak rate in {roofs.dtype} or no peak bandwidth is known for {roofs.gpu}")
    frame = Frame.around(roofs, kernels)
    shown = [replace(each, name=str(number)) for number, each in enumerate(kernels, 1)] if key else kernels

    def draw(axes: Any) -> None:
        axes.set(xscale="log", yscale="log", xlim=frame.x, ylim=frame.y, xlabel="FLOP per byte", ylabel="TFLOP/s")
        axes.grid(True, which="major")
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        if title:
            axes.set_title(title, loc="left")
        _roofs(axes, roofs, frame)
        for group in grouped(shown, frame, NUMBERS_APART if key else APART):
            _dots(axes, sorted(group, key=shown.index), frame)
        if key:
            names = "\n".join(f"{number}  {each.name}" for number, each in enumerate(kernels, 1))
            axes.annotate(names, (1, 1), (12, 0), xycoords="axes fraction", textcoords="offset points", va="top",
                          fontsize="small")

    return paint(draw, sheet, kind, name=name)


def bandwidths(attempts: Sequence[Attempt], baseline_gbps: float | None, peak_gbps: float | None, measured_gbps: float | None,
               sheet: Sheet, kind: Kind, *, name: str = "bandwidth") -> bytes:
    """What each attempt reached of the card's bandwidth, where flops are not known and memory is the roof that counts."""
    timed = [each for each in attempts if each.gbps is not None][-BARS:]
    rows: list[tuple[str, float, str]] = [("baseline", baseline_gbps, BEST)] if baseline_gbps else []
    rows += [(f"#{each.number}", each.gbps, VERDICT[each.verdict.value]) for each in timed if each.gbps]

    def draw(axes: Any) -> None:
        axes.set_xlabel("GB/s that one call reads and writes")
        axes.grid(True, axis="x")
        places = range(len(rows))
        axes.barh(places, [gbps for _, gbps, _ in rows], color=[colour for *_, colour in rows], height=0.62)
        axes.set_yticks(places, [label for label, *_ in rows])
        axes.set_ylim(len(rows) - 0.4, -0.6)  # the first on top
        for gbps, what, colour, style in ((peak_gbps, "data sheet", SHEET, "-"), (measured_gbps, "measured", REAL, "--")):
            if gbps:
                axes.axvline(gbps, color=colour, linestyle=style, linewidth=2, label=f"{what}: {gbps:.4g} GB/s")
        if peak_gbps or measured_gbps:
            axes.figure.legend(loc="outside upper left", frameon=False, ncols=2, fontsize="small")

    return paint(draw, sheet, kind, name=name)


def grouped(kernels: Sequence[PlottedKernel], frame: Frame, apart: float = APART) -> list[list[PlottedKernel]]:
    """Kernels that lie so close to each other that they take one label."""
    groups: list[list[PlottedKernel]] = []
    for each in sorted(kernels, key=lambda kernel: (kernel.flops / kernel.bytes, tflops(kernel))):
        first, last = (groups[-1][0], groups[-1][-1]) if groups else (None, None)
        if first and last and frame.across(each.flops / each.bytes) - frame.across(first.flops / first.bytes) < apart \
                and abs(frame.height(tflops(each)) - frame.height(tflops(last))) < apart:
            groups[-1].append(each)
        else:
            groups.append([each])
    return groups


def _around(exponents: Sequence[float]) -> tuple[float, float]:
    """The powers of ten that these lie between, and not on."""
    return 10.0 ** (math.ceil(4 * min(exponents) - 1) / 4), 10.0 ** (math.floor(4 * max(exponents) + 1) / 4)


def _share(value: float, between: tuple[float, float]) -> float:
    low, high = map(math.log10, between)
    return (math.log10(value) - low) / (high - low)


def tflops(kernel: PlottedKernel) -> float:
    """What a kernel reaches."""
    return kernel.flops / kernel.ms / 1e9


def _roofs(axes: Any, roofs: Roofline, frame: Frame) -> None:
    how = "worked out" if roofs.worked_out else "data sheet"
    lines = [(roofs.peak_tflops, roofs.peak_bandwidth_gbps, SHEET, "-", how)]
    if roofs.measured_bandwidth_gbps:
        lines.append((roofs.measured_tflops, roofs.measured_bandwidth_gbps, REAL, "--", "measured"))
    for rate, gbps, colour, style, said in lines:
        top = rate or roofs.peak_tflops or 1.0
        slope = (gbps or 1.0) / 1e3  # TFLOP/s for each FLOP per byte
        label = f"{said}: {f'{rate:.4g} TFLOP/s, ' if rate else ''}{gbps:.4g} GB/s"
        axes.plot([frame.x[0], top / slope, max(frame.x[1], top / slope)], [frame.x[0] * slope, top, top], color=colour,
                  linestyle=style, linewidth=2, label=label)
    axes.figure.legend(loc="outside upper left", frameon=False, fontsize="small")


def _dots(axes: Any, group: Sequence[PlottedKernel], frame: Frame) -> None:
    across = [each.flops / each.bytes for each in group]
    right = math.sqrt(frame.x[0] * frame.x[1]) > across[0]
    x, y = max(across) if right else min(across), min(map(tflops, group))
    axes.plot(across, [tflops(each) for each in group], "o", color=INK, markersize=5)
    more = f" and {len(group) - NAMED} more" if len(group) > NAMED else ""
    label = "\n".join(textwrap.wrap(", ".join(each.name for each in group[:NAMED]) + more, LABEL_LINE))
    beside = right and label.replace(", ", "").isdigit()  # numbers are short: they stand at the dots' height
    axes.annotate(label, (x, y), (8 if right else -8, 0 if beside else -3), textcoords="offset points", fontsize="small",
                  ha="left" if right else "right", va="center" if beside else "top", annotation_clip=True)
