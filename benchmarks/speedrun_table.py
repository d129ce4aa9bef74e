"""Writes what a speedrun reached and what it cost, a row a target; times and speedups are the records' own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hotkernel.records import figures
from hotkernel.schema.record import Logged

COSTS = ("profile", "confirm", "compiled")  # beside the attempts


def table(rows: dict[str, dict[str, Any]], records: tuple[Logged, ...]) -> Iterator[str]:
    """The table, line by line, from the journals of benchmarks/speedrun.py and the records it made."""
    logged = {each.record.comparison.id: each for each in records}
    yield ("| target | baseline | kept | speedup (99 %) | of the ceiling | against torch.compile | attempts: kept, other, wrong "
           "| confirmed | device s: attempts, profile, confirm, compile | what was kept |")
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
    best = next((each for each in reversed(tried) if each["kept"]), None)
    kept = logged.get(best["id"]) if best else None
    found = kept.record.comparison if kept else None
    for side in (found.baseline, found.candidate) if found else (None, None):
        yield f"{figures.duration(side.mean_ms)} (n={side.n})" if side else figures.UNKNOWN
    yield figures.short_speedup(found.speedup, found.interval_99) if found else "no gain" if best is None else "not recorded yet"
    shares = [each["ceiling_share_pct"] for each in tried if each["ceiling_share_pct"] and each["verdict"] == "inconclusive"]
    level = f"{figures.percent(max(shares))} by an attempt that is level" if shares and best is None else figures.UNKNOWN
    yield figures.percent(found.ceiling_share_pct) if found else level
    other = logged.get(row.get("compiled", {}).get("id"))
    against = other.record.comparison if other else None
    yield (f"{against.verdict} {figures.short_speedup(against.speedup, against.interval_99)} ({against.baseline_name or 'eager'})"
           if against else figures.UNKNOWN)
    wrong = [each for each in tried if each["verdict"] in ("incorrect", "invalid")]
    won = [each for each in tried if each["kept"]]
    yield f"{len(tried)}: {len(won)}, {len(tried) - len(won) - len(wrong)}, {len(wrong)}"
    yield f"{kept.confirmed} of {len(kept.confirmations)}" if kept else figures.UNKNOWN
    spent = [sum(each["seconds"] for each in tried), *(row.get(part, {}).get("seconds", 0.0) for part in COSTS)]
    yield f"{sum(spent):.0f}: " + ", ".join(f"{each:.0f}" for each in spent)
    yield f"`{best['attempt']}`: {best['note']}" if best else figures.UNKNOWN
