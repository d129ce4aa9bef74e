"""Draws a card's roofs with kernels under them, as shapes and as SVG text; pure, writes no file."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from hotkernel.schema.roofline import PlottedKernel, Roofline

WIDTH, HEIGHT = 960, 600
LEFT, RIGHT, TOP, BOTTOM = 80, 930, 60, 530  # the frame of the plot
INK, FAINT, SHEET, REAL = "#1a1a1a", "#d9d9d9", "#1f6fb2", "#b2541f"  # own colours on white: readable in any theme
DOTS = ("#2a7f3f", "#8a2f8f", "#b28a00", "#0f8a8a", "#b2203a", "#555555")
DECADES_LEFT, DECADES_RIGHT = 2.0, 1.3  # of the ridge, that are always shown
LABEL_LIMIT = 60


@dataclass(frozen=True)
class Line:
    x1: float
    y1: float
    x2: float
    y2: float
    colour: str
    width: float = 1.0
    dashed: bool = False


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    colour: str
    radius: float = 5.0


@dataclass(frozen=True)
class Text:
    x: float
    y: float  # of the baseline
    text: str
    size: int = 13
    anchor: str = "start"  # start, middle, end
    colour: str = INK


Shape = Line | Dot | Text


def drawing(roofs: Roofline, kernels: Sequence[PlottedKernel]) -> list[Shape]:
    """The plot as shapes, back to front. Raises ValueError when a roof is unknown."""
    if not roofs.peak_tflops or not roofs.peak_bandwidth_gbps:
        raise ValueError(f"no peak rate in {roofs.dtype} or no peak bandwidth is known for {roofs.gpu}")
    scale = _Scale.around(roofs, kernels)
    return [
        *_grid(scale),
        *_roof(scale, roofs.peak_tflops, roofs.peak_bandwidth_gbps, SHEET, dashed=False),
        *_measured(scale, roofs),
        *_dots(scale, kernels),
        *_words(roofs),
    ]


def to_svg(shapes: Sequence[Shape]) -> str:
    """The shapes as one SVG document."""
    body = "\n".join(map(_svg, shapes))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif">\n'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n{body}\n</svg>\n')


@dataclass(frozen=True)
class _Scale:
    """Where FLOP per byte and TFLOP/s lie in the frame; both logarithmic, in whole decades."""

    x_low: int
    x_high: int
    y_low: int
    y_high: int

    @classmethod
    def around(cls, roofs: Roofline, kernels: Sequence[PlottedKernel]) -> _Scale:
        """Wide enough for the ridge, both its sides and every kernel."""
        peak, gbps = roofs.peak_tflops or 1.0, roofs.peak_bandwidth_gbps or 1.0
        ridge = math.log10(peak * 1e3 / gbps)
        xs = [ridge - DECADES_LEFT, ridge + DECADES_RIGHT, *(math.log10(each.flops / each.bytes) for each in kernels)]
        low = min(xs)
        ys = [math.log10(peak) + 0.2, math.log10(gbps / 1e3) + low, *(math.log10(_tflops(each)) for each in kernels)]
        return cls(math.floor(low), math.ceil(max(xs)), math.floor(min(ys)), math.ceil(max(ys)))

    def x(self, intensity: float) -> float:
        return LEFT + (math.log10(intensity) - self.x_low) / (self.x_high - self.x_low) * (RIGHT - LEFT)

    def y(self, tflops: float) -> float:
        return BOTTOM - (math.log10(tflops) - self.y_low) / (self.y_high - self.y_low) * (BOTTOM - TOP)


def _tflops(kernel: PlottedKernel) -> float:
    return kernel.flops / kernel.ms / 1e9


def _grid(scale: _Scale) -> list[Shape]:
    shapes: list[Shape] = []
    for decade in range(scale.x_low, scale.x_high + 1):
        x = scale.x(10.0**decade)
        shapes += [Line(x, TOP, x, BOTTOM, FAINT), Text(x, BOTTOM + 20, f"{10.0**decade:g}", anchor="middle")]
    for decade in range(scale.y_low, scale.y_high + 1):
        y = scale.y(10.0**decade)
        shapes += [Line(LEFT, y, RIGHT, y, FAINT), Text(LEFT - 8, y + 4, f"{10.0**decade:g}", anchor="end")]
    return [*shapes, Line(LEFT, BOTTOM, RIGHT, BOTTOM, INK), Line(LEFT, TOP, LEFT, BOTTOM, INK)]


def _roof(scale: _Scale, tflops: float, gbps: float, colour: str, dashed: bool) -> list[Shape]:
    """A slope of the bandwidth up to the ridge, then flat."""
    slope = gbps / 1e3  # TFLOP/s for each FLOP per byte
    lowest = max(10.0**scale.x_low, 10.0**scale.y_low / slope)
    ridge = scale.x(tflops / slope)
    return [
        Line(scale.x(lowest), scale.y(lowest * slope), ridge, scale.y(tflops), colour, 2.5, dashed),
        Line(ridge, scale.y(tflops), RIGHT, scale.y(tflops), colour, 2.5, dashed),
    ]


def _measured(scale: _Scale, roofs: Roofline) -> list[Shape]:
    if roofs.measured_bandwidth_gbps is None:
        return []
    tflops = roofs.measured_tflops or roofs.peak_tflops or 1.0
    return _roof(scale, tflops, roofs.measured_bandwidth_gbps, REAL, dashed=True)


def _dots(scale: _Scale, kernels: Sequence[PlottedKernel]) -> list[Shape]:
    shapes: list[Shape] = []
    for number, kernel in enumerate(kernels):
        x, y, colour = scale.x(kernel.flops / kernel.bytes), scale.y(_tflops(kernel)), DOTS[number % len(DOTS)]
        right = x < (LEFT + RIGHT) / 2
        label = f"{kernel.name[:LABEL_LIMIT]}: {kernel.ms:.4g} ms, {_tflops(kernel):.3g} TFLOP/s"
        shapes += [Dot(x, y, colour),
                   Text(x + (10 if right else -10), y + 16, label, 12, "start" if right else "end", colour)]
    return shapes


def _words(roofs: Roofline) -> list[Shape]:
    how = "worked out" if roofs.worked_out else "data sheet"
    words: list[Shape] = [
        Text(LEFT, 30, f"{roofs.gpu}, {roofs.dtype}", 18),
        Text((LEFT + RIGHT) / 2, HEIGHT - 20, "FLOP per byte", anchor="middle"),
        Text(12, TOP - 14, "TFLOP/s"),
        Text(RIGHT, 30, f"{how}: {roofs.peak_tflops:.4g} TFLOP/s, {roofs.peak_bandwidth_gbps:.4g} GB/s, "
                        f"ridge {roofs.ridge_flop_per_byte:.3g}", 13, "end", SHEET),
    ]
    if roofs.measured_bandwidth_gbps is not None:
        rate = f"{roofs.measured_tflops:.4g} TFLOP/s, " if roofs.measured_tflops else ""
        words.append(Text(RIGHT, 48, f"measured: {rate}{roofs.measured_bandwidth_gbps:.4g} GB/s", 13, "end", REAL))
    return words


def _svg(shape: Shape) -> str:
    if isinstance(shape, Line):
        dash = ' stroke-dasharray="8 5"' if shape.dashed else ""
        return (f'<line x1="{shape.x1:.1f}" y1="{shape.y1:.1f}" x2="{shape.x2:.1f}" y2="{shape.y2:.1f}" '
                f'stroke="{shape.colour}" stroke-width="{shape.width:g}"{dash}/>')
    if isinstance(shape, Dot):
        return f'<circle cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius:g}" fill="{shape.colour}"/>'
    return (f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size}" text-anchor="{shape.anchor}" '
            f'fill="{shape.colour}">{html.escape(shape.text)}</text>')
