"""Writes README's tables and picture from results/ and the cases' run on a card: `python tests/pages/write_readme.py`."""

from __future__ import annotations

import contextlib
import io
import json
import math
import re
import textwrap
from html import escape
from pathlib import Path
from typing import Any

from hotkernel import render
from hotkernel.records import figures, store
from hotkernel.records.markdown import cell, row, table
from hotkernel.schema.plain import to_plain
from hotkernel.schema.record import Logged
from hotkernel.schema.verdict import Measurement, VerdictKind

ROOT = Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "verdict.svg"
CASES = ROOT / "benchmarks" / "results" / "h200-2026-11-30" / "integrity" / "integrity.json"  # by benchmarks/integrity.py
MARK = r"(<!-- {name}: [^\n]* -->\n).*?(<!-- /{name} -->)"
COLUMNS = {
    "README.md": ("Target", "Card", "Baseline (n)", "Candidate (n)", "Speedup (99 %)", "Beside torch.compile",
                  "Share of the measured ceiling", "Attempts, minutes", "What was written"),
    "README_zh.md": ("目标", "显卡", "基线 (n)", "候选 (n)", "加速比(99 % 区间)", "与 torch.compile 相比", "占实测上限",
                     "尝试次数,分钟", "写了什么"),
}
COMPILED = "_compiled"  # behind a target's name: the same against torch.compile's modes
CASES_COLUMNS = {
    "README.md": ("Class", "Cases (verdicts)", "hotkernel", "hotkernel 0.1.1"),
    "README_zh.md": ("类别", "案例(判定次数)", "hotkernel", "hotkernel 0.1.1"),
}
SHOWN = "rmsnorm"  # whose verdicts are in the picture, by these candidates
SHOWN_CANDIDATES = tuple(f"{SHOWN}_{each}.py" for each in ("untouched", "candidate", "wrong", "cheat"))
SHOWN_LINES = ("verdict", "reason", "rule", "speedup")
WIDTH, LINE_HEIGHT, CHARACTER = 112, 20, 7.83  # characters; pixels of a 13 px monospace
COLOURS = {"faster": "#7ee787", "inconclusive": "#d2a8ff", "slower": "#d2a8ff", "incorrect": "#ff7b72", "invalid": "#ff7b72"}


def best() -> list[Logged]:
    """The fastest candidate of each target and card, one that was repeated before others; where none was faster, the nearest."""
    fastest: dict[tuple[str, str | None], Logged] = {}
    for each in first_verdicts():
        place = each.record.target, each.record.comparison.gpu
        if place not in fastest or _rank(each) > _rank(fastest[place]):
            fastest[place] = each
    return sorted(fastest.values(), key=lambda each: (-_speedup(each), each.record.target))


def first_verdicts() -> list[Logged]:
    """Of each candidate that was timed, on each target and card, the first verdict."""
    first: dict[tuple[str, str | None, str], Logged] = {}
    for each in sorted(store.read(ROOT).records, key=lambda each: each.record.timestamp):
        found = each.record.comparison
        if each.record.is_verified and found.speedup and found.candidate and not each.record.target.endswith(COMPILED):
            first.setdefault((each.record.target, found.gpu, found.sources["candidate"].sha256 or each.log), each)
    return list(first.values())


def _rank(each: Logged) -> tuple[bool, bool, float]:
    return each.record.comparison.verdict is VerdictKind.FASTER, each.confirmations != (), _speedup(each)


def headline(columns: tuple[str, ...]) -> str:
    """The table, one row a target."""
    rows = [_cells(each) for each in best()]
    # a column of dashes says nothing
    shown = [at for at in range(len(columns)) if any(cells[at] != figures.UNKNOWN for cells in rows)]
    lines = table(tuple(columns[at] for at in shown), [row(tuple(cells[at] for at in shown)) for cells in rows])
    return "\n".join(lines) + "\n"


def cases(columns: tuple[str, ...]) -> str:
    """The table of cheats: how many of each class were called faster, here and by the original, and of verdicts how many."""
    rows = json.loads(CASES.read_text(encoding="utf-8"))["rows"]
    classes = dict.fromkeys(each["category"] for each in rows if each["kind"] == "cheats")
    cheats = [each for each in rows if each["kind"] == "cheats"]
    lines = [_class(name, [each for each in cheats if each["category"] == name], "faster") for name in classes]
    lines.append(_class("**all**", cheats, "faster"))
    lines.append(_class("honest ones, refused", [each for each in rows if each["kind"] == "honest"], "incorrect invalid error"))
    return "\n".join(table(columns, lines)) + "\n"


def _class(name: str, rows: list[dict[str, Any]], verdicts: str) -> str:
    """How many of `rows` got one of these verdicts; what was not run is not counted."""
    def told(key: str) -> str:
        ran = [each[key] for each in rows if each[key] is not None]
        return f"{sum(verdict in verdicts.split() for verdict in ran)} of {len(ran)}" if ran else "–"

    count, ran = len({each["case"] for each in rows}), sum(each["verdict"] is not None for each in rows)
    return row((name, f"{count} ({ran})", told("verdict"), told("original_verdict")))


def readme(name: str) -> str:
    """A README with the tables that the records and the cases' run give."""
    text = (ROOT / name).read_text(encoding="utf-8")
    for mark, written in (("headline", headline(COLUMNS[name])), ("cases", cases(CASES_COLUMNS[name]))):
        place = re.compile(MARK.format(name=mark), re.DOTALL)
        text, count = place.subn(lambda found, written=written: found[1] + written + found[2], text)
        assert count == 1, f"{name} has {count} places for {mark}"
    return text


def picture() -> str:
    """What `hotkernel verify` printed for the target shown, one candidate after the other, as an SVG."""
    lines: list[str] = []
    for each in _shown():
        lines += [*_said(each), ""]
    lines.pop()
    width, height = round(WIDTH * CHARACTER) + 32, len(lines) * LINE_HEIGHT + 32
    drawn = "".join(f'<text x="16" y="{30 + number * LINE_HEIGHT}">{_coloured(line)}</text>\n'
                    for number, line in enumerate(lines) if line)
    card = escape(_shown()[0].record.comparison.gpu or "")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">\n'
            f"<title>Verdicts on {SHOWN}, {card}, from the logs under results/</title>\n"
            f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n'
            '<g font-family="ui-monospace, SFMono-Regular, Menlo, Consolas, monospace" font-size="13" fill="#e6edf3" '
            f'style="white-space:pre">\n{drawn}</g>\n</svg>\n')


def _shown() -> list[Logged]:
    """The first verdict of each candidate that is shown."""
    first: dict[str, Logged] = {}
    for each in sorted(store.read(ROOT).records, key=lambda each: each.record.timestamp):
        if each.record.target == SHOWN and each.record.is_verified:
            first.setdefault(each.record.comparison.sources["candidate"].name, each)
    return [first[name] for name in SHOWN_CANDIDATES]


def _said(each: Logged) -> list[str]:
    """The command and the first lines of its answer, printed by the product itself."""
    found = each.record.comparison
    heard = io.StringIO()
    with contextlib.redirect_stdout(heard):
        render.show(to_plain(found))
    wanted = [line for line in heard.getvalue().splitlines() if line.split(": ")[0] in SHOWN_LINES]
    asked = f"$ hotkernel verify {found.sources['candidate'].name} {found.sources['baseline'].name}"
    return [asked, *(part for line in wanted
                     for part in textwrap.wrap(line, WIDTH, subsequent_indent="        "))]


def _coloured(line: str) -> str:
    if line.startswith("$"):
        return f'<tspan font-weight="bold">{escape(line)}</tspan>'
    name, _, value = line.partition(": ")
    if name == "verdict":
        return f'verdict: <tspan font-weight="bold" fill="{COLOURS[value]}">{value}</tspan>'
    return escape(line)


def _cells(each: Logged) -> tuple[str, ...]:
    found = each.record.comparison
    assert found.baseline
    assert found.candidate
    assert found.interval_99
    shape = "×".join(map(str, max(found.shapes.values(), key=math.prod)))  # of the largest input
    low, high = found.interval_99
    digits = 2 if found.speedup and found.speedup >= 2 else 3
    speedup = f"{found.speedup:.{digits}f}×"
    said = f"**{speedup}**" if found.verdict is VerdictKind.FASTER else f"{found.verdict.value}: {speedup}"
    share = figures.share(found.ceiling_share_pct, found.ceiling_bound)
    dtype = (found.dtype or "").removeprefix("torch.").replace("bfloat16", "bf16").replace("float", "fp")
    return (f"[{each.record.target}]({each.log}) {shape} {dtype}", cell(found.gpu or found.device, 40),
            _us(found.baseline), _us(found.candidate),
            f"{said} ({low:.{digits}f}–{high:.{digits}f})", _beside_compiled(each), share, _cost(each),
            cell(each.record.note, 120))


def _beside_compiled(each: Logged) -> str:
    """What the same candidate was judged against torch.compile's fastest mode on the same kind of card."""
    found = each.record.comparison
    for other in store.read(ROOT).records:
        against = other.record.comparison
        if (other.record.target == each.record.target + COMPILED and against.gpu == found.gpu
                and against.sources["candidate"].sha256 == found.sources["candidate"].sha256):
            return f"[{against.verdict}]({other.log}) {figures.short_speedup(against.speedup, against.interval_99)}"
    return figures.UNKNOWN


def _cost(each: Logged) -> str:
    """How many candidates the same hand tried on this target and card, and what all verdicts took, repeats too."""
    found, sources, seconds = each.record.comparison, set(), 0.0
    for other in store.read(ROOT).records:
        verified = other.record.comparison
        if (other.record.target, other.record.who, verified.gpu) == (each.record.target, each.record.who, found.gpu):
            sources.add(verified.sources["candidate"].sha256)
            seconds += sum(one.seconds.get("all", 0.0) for one in (verified, *other.confirmations))
    return f"{len(sources)}, {seconds / 60:.1f}"


def _us(measured: Measurement) -> str:
    return f"{measured.mean_ms * 1e3:.1f} µs ({measured.n})"


def _speedup(each: Logged) -> float:
    return each.record.comparison.speedup or 0.0


if __name__ == "__main__":
    for name in COLUMNS:
        (ROOT / name).write_text(readme(name), encoding="utf-8")
    PICTURE.parent.mkdir(exist_ok=True)
    PICTURE.write_text(picture(), encoding="utf-8")
