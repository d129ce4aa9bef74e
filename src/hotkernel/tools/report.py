"""The tool report: the records as one HTML page with plots, for people; judges nothing, and asks the network for nothing."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from hotkernel import __version__
from hotkernel.errors import ToolError
from hotkernel.judge import gpu_specs
from hotkernel.judge import roofline as roof
from hotkernel.parameter import Alias
from hotkernel.plots.attempts import attempts
from hotkernel.plots.canvas import Kind, Sheet
from hotkernel.plots.roofline import bandwidths, roofline
from hotkernel.records import entries, files, markdown, page, page_sections, store
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.page import Page, Picture, Section
from hotkernel.schema.record import Logged
from hotkernel.schema.report import ReportResult
from hotkernel.schema.roofline import Bound, MeasuredPeaks, PlottedKernel, Roofline
from hotkernel.session import Session
from hotkernel.tools.history import find

SMALL = Sheet(4.6, 3.2, 9.5)  # inches: on a phone its letters are still some 10 pixels high
Draw = Callable[[Kind, str], bytes]


@dataclass(frozen=True)
class _Plot:
    """A plot that can be drawn, and what stands beside it."""

    name: str
    title: str
    caption: str
    draw: Draw


def report(
    session: Session,
    target: Annotated[str, "a target's name, or one record's log or id; empty: all", Alias("run", "id")] = "",
    out: Annotated[str, "the page's file"] = "report.html",
    png: Annotated[bool, "its plots as PNG beside it, too"] = False,
    cwd: Annotated[str, "folder of results/"] = "",
) -> ReportResult:
    """Write the records as one HTML page for people: attempts, roofline, the best one's source, machine."""
    base = session.folder(cwd)
    shelf = store.read(base)
    chosen = [each for each in shelf.records if target in ("", each.record.target)]
    is_single = not chosen and target != ""
    if is_single:
        chosen = [find(shelf, target, base)]
    if not chosen:
        raise ToolError(f"nothing is recorded under {base / store.RESULTS}", fix="record a verdict first, or give cwd")
    path = session.path(out, cwd=cwd or None)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ToolError(f"{path.name} is no name for a page", fix="let out end with .html: what lies there is written over")
    session.progress("reading the records", None, None)
    shown = page_sections.sections(shelf, base, chosen)
    plots = {section.key: _plots(section, [each for each in chosen if each.log in {row.log for row in section.rows}])
             for section in shown}
    drawn, pictures, warnings = _drawn(session, plots, path if png else None)
    old = tuple(each for each in page_sections.superseded(shelf) if target in ("", each.target))
    text = page.render(Page(
        title=_title(is_single, target, chosen), is_single=is_single, version=__version__, folder=markdown.plain(base.name, 80),
        made=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC", sections=shown, superseded=old,
        skipped=() if is_single else tuple((each.path, each.reason) for each in entries.skipped(shelf)), warnings=tuple(warnings),
    ), drawn)
    content = text.encode("utf-8", "replace")
    files.write_whole(path, content)
    return ReportResult(str(path), len(content), tuple(dict.fromkeys(each.target for each in shown)), len(chosen),
                        tuple(pictures), tuple(warnings))


def _title(is_single: bool, target: str, chosen: Sequence[Logged]) -> str:
    if is_single:
        return f"{chosen[0].record.target}: one attempt"
    return f"{target}: every attempt" if target else "GPU kernels: what was tried, and what is faster"


def _drawn(session: Session, plots: dict[str, list[_Plot]],
           beside: Path | None) -> tuple[dict[str, list[Picture]], list[str], list[str]]:
    """The plots as SVG, the PNG files that were written, and why there are none where there are none."""
    drawn: dict[str, list[Picture]] = {}
    written: list[str] = []
    total = sum(map(len, plots.values()))
    try:
        for key, some in plots.items():
            for plot in some:
                session.progress(f"drawing {plot.name}", sum(map(len, drawn.values())), total)
                svg = plot.draw("svg", f"{key}-{plot.name.rpartition('-')[2]}").decode("utf-8")
                drawn.setdefault(key, []).append(Picture(svg, plot.title, plot.caption))
                if beside:
                    file = beside.with_name(f"{beside.stem}-{plot.name}.png")
                    files.write_whole(file, plot.draw("png", plot.name))
                    written.append(str(file))
    except ImportError:
        return {}, written, ["There are no plots: they need matplotlib, as in pip install 'hotkernel[plot]'."]
    return drawn, written, []


# Plots ----------------------------------------------------------------------------------------------------------------


def _plots(section: Section, logged: Sequence[Logged]) -> list[_Plot]:
    """What can be drawn of a section: attempts in time, and how near they came to the card's roof."""
    name = f"{section.target}-{section.key}"
    found = []
    if len(section.tries) > 1:
        found.append(_Plot(f"{name}-attempts", "Attempts in time.",
                           "Above the line at 1× is faster than the baseline; a bar shows the range of 99 % confidence, and "
                           "what stands at the foot has no time.",
                           lambda kind, key: attempts(section.tries, SMALL, kind, name=key)))
    timed = next((each.record.comparison for each in reversed(logged)
                  if each.record.comparison.baseline and each.record.comparison.roofline_inputs.get("min_bytes")), None)
    if timed is not None and (under := _under_the_roof(section, logged, timed, name)):
        found.append(under)
    return found


def _under_the_roof(section: Section, logged: Sequence[Logged], newest: Comparison, name: str) -> _Plot | None:
    """The roofline where the target says its flops, else the share of the bandwidth; nothing where no roof is known."""
    moved, flops = newest.roofline_inputs.get("min_bytes"), newest.roofline_inputs.get("flops")
    roofs = _roofs([each.record.comparison for each in logged], newest, moved)
    if not moved or newest.baseline is None or roofs is None:
        return None
    if flops and roofs.peak_tflops and roofs.peak_bandwidth_gbps:
        times = [("baseline", newest.baseline.mean_ms)]
        times += [(f"#{each.number}", moved / each.gbps / 1e6) for each in section.tries if each.gbps]
        kernels = [PlottedKernel(label, flops, moved, ms) for label, ms in times if ms > 0]
        return _Plot(f"{name}-roofline", "Roofline.",
                     "No kernel can be above the lines: on the slope memory is the limit, on the flat part arithmetic. "
                     "Each attempt stands under its number, and those close together under one label.",
                     lambda kind, key: roofline(roofs, kernels, SMALL, kind, name=key))
    baseline_gbps = moved / newest.baseline.mean_ms / 1e6
    peak, measured = roofs.peak_bandwidth_gbps, roofs.measured_bandwidth_gbps
    return _Plot(f"{name}-roofline", "How near the memory's limit.",
                 "How many bytes a second each attempt moves, beside what the card can. The target does not say how much "
                 "arithmetic it does, so this stands in the place of a roofline.",
                 lambda kind, key: bandwidths(section.tries, baseline_gbps, peak, measured, SMALL, kind, name=key))


def _roofs(found: Sequence[Comparison], newest: Comparison, moved: float | None) -> Roofline | None:
    """The card's roofs: by the data sheet, and as it was calibrated when a record was made, which the record implies."""
    spec = gpu_specs.of_driver_name(newest.gpu, None) if newest.gpu else None
    if spec is None or spec.bandwidth_gbps is None:
        return None
    dtype = roof.DTYPES_OF_TORCH.get((newest.dtype or "").removeprefix("torch."), "bf16")
    shares = [(each.candidate.mean_ms, each.ceiling_share_pct) for each in reversed(found)
              if each.candidate and each.ceiling_share_pct and each.ceiling_bound is not Bound.COMPUTE]
    measured = None
    if shares and moved:
        mean_ms, share_pct = shares[0]
        measured = MeasuredPeaks(moved / mean_ms / 1e6 / (share_pct / 100), None, "the record's own calibration")
    return roof.roofline(spec, None, None, dtype, measured)
