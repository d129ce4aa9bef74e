"""Writes what a speedrun reached and what it cost, a row a target; times and speedups are the records' own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hotkernel.records import figures, markdown
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.record import Logged
from hotkernel.schema.roofline import Bound

ROOT = Path(__file__).resolve().parents[1]
REACHED_PCT = 95.0  # of the ceiling: what other attempts there are is left out
COSTS = ("profile", "confirm", "original", "compiled")  # beside the attempts


def final(row: dict[str, Any]) -> dict[str, Any] | None:
    """The attempt in force; of a target that none was faster on, the nearest."""
    kept = [each for each in row["attempts"] if each["kept"]]
    timed = [each for each in row["attempts"] if each["speedup"] and each["verdict"] in ("faster", "slower", "inconclusive")]
    return kept[-1] if kept else max(timed, key=lambda each: each["speedup"], default=None)


def page(rows: dict[str, dict[str, Any]], records: tuple[Logged, ...], root: str = "") -> Iterator[str]:
    """The tables with a head, each target's attempts in the order they were tried, and the profiles; results/ is below `root`."""
    yield "# What the speedrun reached, and what it cost"
    yield ""
    yield ("By benchmarks/speedrun.py: times, speedups and shares are the records' own; seconds are of wall time. "
           "A dash is what was not run. The ceiling is what this card's calibration reached at the target's bytes and mix "
           "of reads and writes, or with its matrix products (compute); torch's own kernels reached it, so that a better one "
           "may lie a little above.")
    yield ""
    yield from table(rows, records)
    logged = {each.record.comparison.id: each for each in records}
    for name, row in rows.items():
        yield from ("", f"## {name}", "", "| attempt | hypothesis | verdict | against the baseline | of the ceiling | kept | s |",
                    "|---|---|---|---|---|---|---|")
        for each in row["attempts"]:
            yield markdown.row((f"`{each['attempt']}`", *_tried(each, logged.get(each["id"]), root)))
        left = sorted(untried(name, row))
        if left:
            why = "the ceiling was reached" if any((each["ceiling_share_pct"] or 0) >= REACHED_PCT for each in row["attempts"]) \
                else "not run yet"
            yield from ("", f"Not tried ({why}): {', '.join(f'`{each}`' for each in left)}.")
        best = final(row)
        if best and (recorded := logged.get(best["id"])) and recorded.why:
            yield from ("", f"`{best['attempt']}` beside the baseline under ncu: {markdown.plain(recorded.why.why, 600)}.")


def untried(name: str, row: dict[str, Any]) -> set[str]:
    """The attempts that lie in speedrun/ and have no verdict yet, but for the deliberately wrong one."""
    there = {file.stem for file in (ROOT / "speedrun" / name / "attempts").glob("*.py") if not file.stem.startswith("99")}
    return there - {each["attempt"] for each in row["attempts"] if each["verdict"]}


def _tried(each: dict[str, Any], recorded: Logged | None, root: str) -> Iterator[str]:
    """An attempt's line behind its name."""
    note = markdown.cell(each["note"], 200)
    yield markdown.link(note, f"{root}{recorded.log}") if recorded else note
    yield each["verdict"] or markdown.cell(f"none: {each.get('reason', '')}", 120)
    found = recorded.record.comparison if recorded else None
    yield figures.short_speedup(found.speedup, found.interval_99) if found else figures.UNKNOWN
    yield _reached(found) if found else figures.percent(each["ceiling_share_pct"])
    yield "yes" if each["kept"] else ""
    yield f"{each['seconds']:.1f}"


def table(rows: dict[str, dict[str, Any]], records: tuple[Logged, ...]) -> Iterator[str]:
    """The table, line by line, from the journals of benchmarks/speedrun.py and the records it made."""
    logged = {each.record.comparison.id: each for each in records}
    yield ("| target | baseline | kept, or the nearest | speedup (99 %) | of the measured ceiling "
           "| against torch.compile | attempts: kept, other, wrong | confirmed "
           "| device s: attempts, profile, confirm, 0.1.1, compile | what was kept, or came nearest |")
    yield "|---|---|---|---|---|---|---|---|---|---|"
    for name, row in rows.items():
        if row["attempts"]:
            yield f"| {name} | " + " | ".join(cells(row, logged)) + " |"
    if any(row.get("original") for row in rows.values()):
        yield ""
        yield ("| target | hotkernel 0.1.1: baseline, candidate | its speedup | its verdict | its seconds "
               "| here: baseline, candidate | speedup (99 %) |")
        yield "|---|---|---|---|---|---|---|"
        for name, row in rows.items():
            if row.get("original"):
                yield f"| {name} | " + " | ".join(originals_cells(row["original"], logged)) + " |"


def originals_cells(theirs: dict[str, Any], logged: dict[str, Logged]) -> Iterator[str]:
    """What the older system said of the same candidate on the same card, and what was said here."""
    there = [theirs["baseline_ms"], theirs["candidate_ms"]]
    yield ", ".join(figures.duration(ms) if ms else figures.UNKNOWN for ms in there)
    yield f"{theirs['speedup']:.2f}" if theirs["speedup"] else figures.UNKNOWN
    yield theirs["verdict"] or "none"
    yield f"{theirs['seconds']:.0f}"
    ours = logged.get(theirs["id"])
    found = ours.record.comparison if ours else None
    sides = (found.baseline, found.candidate) if found else (None, None)
    yield ", ".join(figures.duration(side.mean_ms) if side else figures.UNKNOWN for side in sides)
    yield figures.short_speedup(found.speedup, found.interval_99) if found else figures.UNKNOWN


def cells(row: dict[str, Any], logged: dict[str, Logged]) -> Iterator[str]:
    """One target's."""
    tried = row["attempts"]
    best = final(row)
    kept = logged.get(best["id"]) if best else None
    found = kept.record.comparison if kept else None
    for side in (found.baseline, found.candidate) if found else (None, None):
        yield f"{figures.duration(side.mean_ms)} (n={side.n})" if side else figures.UNKNOWN
    won_or_not = "" if best is None or best["kept"] else f"{best['verdict']}: "
    yield (won_or_not + figures.short_speedup(found.speedup, found.interval_99) if found
           else "no time" if best is None else "not recorded yet")
    yield _reached(found) if found else figures.UNKNOWN
    other = logged.get(row.get("compiled", {}).get("id"))
    against = other.record.comparison if other else None
    yield (f"{against.verdict} {figures.short_speedup(against.speedup, against.interval_99)} ({against.baseline_name or 'eager'})"
           if against else figures.UNKNOWN)
    wrong = [each for each in tried if each["verdict"] in ("incorrect", "invalid")]
    won = [each for each in tried if each["kept"]]
    yield f"{len(tried)}: {len(won)}, {len(tried) - len(won) - len(wrong)}, {len(wrong)}"
    yield f"{kept.confirmed} of {len(kept.confirmations)}" if kept and kept.confirmations else figures.UNKNOWN
    spent = [sum(each["seconds"] for each in tried), *(row.get(part, {}).get("seconds", 0.0) for part in COSTS)]
    yield f"{sum(spent):.0f}: " + ", ".join(f"{each:.0f}" for each in spent)
    yield f"`{best['attempt']}`: {best['note']}" if best else figures.UNKNOWN


def _reached(found: Comparison) -> str:
    """Of the roof that a kernel is under, as the record has it; with its rate where that is arithmetic."""
    said, flops = figures.share(found.ceiling_share_pct, found.ceiling_bound), found.roofline_inputs.get("flops")
    if found.ceiling_bound is Bound.COMPUTE and flops and found.candidate:
        said += f", {flops / found.candidate.mean_ms / 1e9:.0f} TFLOP/s"
    return said
