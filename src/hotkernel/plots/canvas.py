"""A sheet to plot on, and its content as SVG or PNG, with matplotlib (the extra `plot`); knows no kernel.

Colours are named here once. In an SVG each is a CSS variable with that colour to fall back on, so that a page may give
it another in the dark; texts stay texts.
"""

from __future__ import annotations

import io
import re
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

INK, FAINT, SHEET, REAL, BEST = "#1b1f25", "#d1d9e1", "#1f6fb3", "#b2541e", "#57606b"
VERDICT = {"faster": "#1a7f38", "inconclusive": "#6e7782", "slower": "#bc4c01", "incorrect": "#cf222f", "invalid": "#8250e0"}
MARKER = {"faster": "o", "inconclusive": "s", "slower": "v", "incorrect": "X", "invalid": "D"}  # told apart without colour
VARIABLES = {INK: "ink", FAINT: "faint", SHEET: "sheet", REAL: "real", BEST: "best",
             **{colour: name for name, colour in VERDICT.items()}}
PNG_DPI = 200

Kind = Literal["svg", "png"]
_RC = threading.Lock()  # matplotlib reads its settings from one place for all threads
_METADATA = re.compile(r"<metadata>.*?</metadata>\s*", re.DOTALL)
_HEAD = re.compile(r"^.*?(?=<svg )", re.DOTALL)
_COLOUR = re.compile("|".join(VARIABLES))
_FONT = re.compile(r"'DejaVu Sans'(, [^;\"]*)?")


@dataclass(frozen=True)
class Sheet:
    """How large, and how large its letters are."""

    width_in: float
    height_in: float
    font_pt: float


def paint(draw: Callable[[Any], None], sheet: Sheet, kind: Kind, *, name: str = "plot") -> bytes:
    """What `draw` puts on an empty pair of axes; `name` keeps two SVGs on one page apart. ImportError without matplotlib."""
    import matplotlib
    from matplotlib.figure import Figure

    settings: dict[Any, Any] = {
        "font.size": sheet.font_pt, "font.family": "DejaVu Sans", "svg.fonttype": "none", "svg.hashsalt": name,
        "text.parse_math": False, "axes.formatter.use_mathtext": False, "axes.axisbelow": True,
        "axes.edgecolor": INK, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "text.color": INK,
        "grid.color": FAINT, "axes.spines.top": False, "axes.spines.right": False,
    }
    content = io.BytesIO()
    with _RC, matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a name may hold letters that the font has not: the reader's has
        figure = Figure(figsize=(sheet.width_in, sheet.height_in), layout="constrained")
        draw(figure.add_subplot())
        if kind == "png":
            figure.savefig(content, format="png", dpi=PNG_DPI, facecolor="#ffffff", metadata={"Software": None})
            return content.getvalue()
        figure.savefig(content, format="svg", transparent=True, metadata={"Date": None})
    return _for_pages(content.getvalue().decode("utf-8"), name).encode("utf-8")


def _for_pages(svg: str, name: str) -> str:
    """The SVG alone, with names of its own and colours that a page may change."""
    svg = _METADATA.sub("", _HEAD.sub("", svg))
    svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\1{name}-", svg)
    svg = _FONT.sub("system-ui, 'DejaVu Sans', sans-serif", svg)
    return _COLOUR.sub(lambda found: f"var(--{VARIABLES[found[0]]}, {found[0]})", svg)
