"""Draws LEADERBOARD.md from the logs and from nothing else, byte for byte the same."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from hotkernel.records import figures, files, markdown, store
from hotkernel.records.figures import UNKNOWN
from hotkernel.records.markdown import cell
from hotkernel.records.store import Shelf
from hotkernel.schema.comparison import CaseResult
from hotkernel.schema.record import Logged, Superseded
from hotkernel.schema.verdict import Measurement, VerdictKind

NAME = "LEADERBOARD.md"
REBUILDS = 5  # each sees the logs that came while the one before it was drawn

_HEAD = """# Leaderboard

<!-- Drawn by `hotkernel record` from the logs under results/. Nobody edits it: the next record overwrites it. -->

A speedup, with its 99 % interval, stands only where the verdict is `faster`. A mean is of one call; n counts samples.
"""
_SELF_REPORTED = """## Self-reported

These scripts timed and checked themselves. Nothing here is verified, and none of it counts above.
"""
_SUPERSEDED = """## Superseded

Logs of older timing protocols, as they were written. They are not comparable with the rows above and do not count.
"""
_COLUMNS = ("Target", "GPU", "Power", "Baseline mean (n)", "Candidate mean (n)", "Speedup", "Share of ceiling",
            "Assurance", "What changed", "Date", "Commit", "Who")
_OLD_COLUMNS = ("Target", "Superseded", "Baseline mean", "Candidate mean", "Speedup then", "What changed", "Date",
                "Who")
_WITHOUT_SPEEDUP = {
    VerdictKind.SLOWER: "no gain", VerdictKind.INCONCLUSIVE: "no gain",
    VerdictKind.INCORRECT: "incorrect", VerdictKind.INVALID: "invalid",
}


def rebuild(base: Path) -> tuple[Path, Shelf]:
    """Draw `base`/LEADERBOARD.md anew from every log under `base`/results; the file and what it was drawn from.

    A record that another process adds meanwhile is on it too. Raises ToolError where the disk refuses.
    """
    path = base / NAME
    for _ in range(REBUILDS):
        seen = store.log_names(base)
        shelf = store.read(base)
        text = draw(shelf)
        if not _holds(path, text):
            files.write_whole(path, text)
        if store.log_names(base) == seen:
            break
    return path, shelf


def draw(shelf: Shelf) -> str:
    """The board's text."""
    verified = [each for each in shelf.records if each.record.is_verified]
    claimed = [each for each in shelf.records if not each.record.is_verified]
    parts = [_HEAD, "\n".join(markdown.table(_COLUMNS, _rows(verified))) if verified else "No record yet."]
    if claimed:
        parts += ["\n" + _SELF_REPORTED, "\n".join(markdown.table(_COLUMNS, _rows(claimed)))]
    if shelf.superseded:
        parts += ["\n" + _SUPERSEDED, "\n".join(markdown.table(_OLD_COLUMNS, _old_rows(shelf.superseded)))]
    return "\n".join(parts) + "\n"


def row(logged: Logged) -> str:
    """One record's line of the board."""
    record, found = logged.record, logged.record.comparison
    measured_as = f" (measured as {found.target})" if found.target != record.target else ""
    return markdown.row((
        cell(record.target + measured_as, 120),
        cell(found.gpu or found.device, 60),
        figures.watts(found.power_limit_w),
        _mean(found.baseline),
        _mean(found.candidate),
        speedup_cell(logged),
        figures.share(found.ceiling_share_pct, found.ceiling_bound),
        cell(_assurance(logged), 40),
        _changed(record.note, logged.log),
        cell(found.timestamp[:10], 10),
        cell(record.commit, 12),
        cell(record.who, 40),
    ))


def speedup_cell(logged: Logged) -> str:
    """What stands in the board's speedup column: a figure for `faster` alone."""
    found = logged.record.comparison
    return _speedup(found.verdict, found.speedup, found.interval_99)


def _speedup(verdict: VerdictKind, speedup: float | None, interval: tuple[float, ...] | None) -> str:
    if verdict is not VerdictKind.FASTER or speedup is None:
        return _WITHOUT_SPEEDUP.get(verdict, UNKNOWN)
    return figures.speedup(speedup, interval)


def _rows(records: Iterable[Logged]) -> list[str]:
    """Target by target and card by card, the fastest first, then the others from old to new."""
    def place(each: Logged) -> tuple[object, ...]:
        found = each.record.comparison
        gain = found.speedup if found.verdict is VerdictKind.FASTER and found.speedup else 0.0
        return each.record.target, found.gpu or found.device, -gain, each.record.timestamp, each.log

    return [line for each in sorted(records, key=place) for line in (row(each), *_case_rows(each))]


def _case_rows(logged: Logged) -> list[str]:
    """Below a record of several cases, a line for each: what it is, both times, its own speedup."""
    found = logged.record.comparison
    return [markdown.row((
        cell(f"↳ {case.case}", 120), cell(_shapes(case), 60), UNKNOWN,
        figures.ms(case.baseline_ms),
        f"{figures.ms(case.candidate_ms)} ({case.samples})" if case.candidate_ms is not None else UNKNOWN,
        _speedup(case.verdict, case.speedup, case.interval_99), *[UNKNOWN] * 6)) for case in found.cases]


def _shapes(case: CaseResult) -> str:
    shapes = " ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in case.shapes.items())
    return f"{shapes} {(case.dtype or '').removeprefix('torch.')}".strip()


def _old_rows(superseded: Iterable[Superseded]) -> list[str]:
    return [
        markdown.row((
            cell(each.target, 64),
            cell(each.reason, 60),
            figures.ms(each.baseline_ms),
            figures.ms(each.candidate_ms),
            figures.speedup(each.speedup) if each.speedup is not None and each.verdict == "faster" else cell(each.verdict, 20),
            _changed(each.note, each.log),
            cell(each.timestamp[:10], 10),
            cell(each.who, 40),
        ))
        for each in sorted(superseded, key=lambda each: (each.target, each.reason, each.log))
    ]


def _assurance(logged: Logged) -> str:
    """How well the judge was kept apart, and how many independent verifies came to the same verdict."""
    kept = len(logged.confirmations)
    return logged.record.comparison.assurance + (f", {logged.confirmed} of {kept} confirm" if kept else "")


def _mean(measured: Measurement | None) -> str:
    return f"{figures.ms(measured.mean_ms)} ({measured.n})" if measured else UNKNOWN


def _changed(note: str, log: str) -> str:
    text = cell(note, 120)
    return markdown.link("log" if text == UNKNOWN else text, log)


def _holds(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode("utf-8")
    except OSError:
        return False
