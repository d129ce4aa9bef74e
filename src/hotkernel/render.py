"""Makes a result readable: short lines for an agent, tables for a terminal; rounds here and nowhere else."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

NAME_LIMIT = 200  # characters of a kernel's name where it is shown; templates go to thousands
LINE_LIMIT = 1000  # characters of a name in a result: enough to tell two templates apart
SUMMARY_LINES = 10
ROWS_TOLD = 4  # of a table, in a summary, at the expense of single values
ROWS_SHOWN = 50
CELL_LIMIT = 60  # characters of a table's cell
PROSE_LIMIT = 600  # of one that holds a sentence
MAPPING_LINE = 200  # characters of a mapping that is told on one line
PROSE_WIDTH = 28  # the least that a column of sentences gets
FEW_ROWS = 5  # so many rows too wide for a table are told as lines

# Terminal sequences; then what a terminal or a reader could be steered by: controls, bidi marks, zero-width characters.
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb"
                     "\U000e0000-\U000e007f]")
# What a record needs and a person at a terminal does not.
_EVIDENCE = ("sources", "pins", "cmds", "versions", "seconds", "order", "shapes", "roofline_inputs", "protocol", "timestamp")
_UNTOLD = ("schema_version", "schema", "truncated", "samples_ms", "null_because")  # --json has them
# Columns that say again what another of the same table says: the longer name, and the names of older versions.
_SAID_BY = {"name": "short_name", "total_ns": "device_time_us", "time_pct": "pct", "duration_us": "avg_us"}
# Columns of a table too wide for the terminal that stay longest.
_KEPT = ("number", "name", "short_name", "figure", "verdict", "status", "before", "after", "speedup", "note", "detail", "fix",
         "text", "interval_99", "decision", "target", "who", "timestamp", "log", "reason")
# A word's colour, on a terminal alone; rich leaves colours out where NO_COLOR is set.
_COLOURS = {"faster": "bold green", "slower": "bold yellow", "inconclusive": "bold", "incorrect": "bold red",
            "invalid": "bold red", "keep": "green", "revert": "yellow", "ok": "green", "warning": "yellow", "fail": "bold red",
            "failed": "bold red", "passed": "green"}
_PROSE = ("text", "reason", "fix", "message", "note", "advice", "detail")
_FOLDED = (*_PROSE, "before", "after", "log")
# What a reader looks for first, where a result has it.
_FIRST = ("status", "job", "overall", "verdict", "reason", "rule", "speedup", "keep", "advice", "id", "bound", "attainable_ms",
          "attainable_ms_measured", "baseline.mean_ms", "candidate.mean_ms", "mean_ms", "std_ms", "min_ms", "path", "report",
          "log", "message")


def clean(text: str, limit: int = NAME_LIMIT, *, lines: bool = False) -> str:
    """`text` from a child, a file or a kernel's name as plain data: nothing unseen in it, and cut at `limit`.

    With `lines`, line breaks and tabs stay; else they become spaces.
    """
    seen = _UNSEEN.sub("", _SEQUENCES.sub("", text.replace("\r\n", "\n")))
    if not lines:
        seen = seen.replace("\n", " ").replace("\t", " ")
    return seen if len(seen) <= limit else seen[: limit - 1] + "…"


def clean_all(value: Any) -> Any:
    """A plain value with every string in it cleaned; line breaks stay, and a page of a listing stays whole."""
    if isinstance(value, str):
        return clean(value, max(LINE_LIMIT, len(value) + 1 if "\n" in value else 0), lines=True)
    if isinstance(value, Mapping):
        return {clean(str(key)): clean_all(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [clean_all(item) for item in value]
    return value


def summary(plain: Mapping[str, Any]) -> str:
    """At most ten lines of what matters most; every word of it stands in the result too."""
    means = {f"{side}.mean_ms": plain[side].get("mean_ms") for side in ("baseline", "candidate")
             if isinstance(plain.get(side), Mapping)}
    told = {**plain, **means}
    names = [*(name for name in _FIRST if name in told), *(name for name in told if name not in _FIRST + _UNTOLD)]
    lines = [f"{name}: {_scalar(told[name])}" for name in names if _is_told(told[name])]
    rows = [f"{name}[{number}]: {_row(row)}" for name in names if _is_rows(told[name]) for number, row in enumerate(told[name])]
    return "\n".join([*lines[: SUMMARY_LINES - min(len(rows), ROWS_TOLD)], *rows][:SUMMARY_LINES])


def show(plain: Mapping[str, Any]) -> None:
    """Print a result for a person: single values, then tables, then listings. Of a comparison what is there as evidence alone is
    named, and not told.
    """
    from rich.console import Console

    # a pipe has no width: tables are not folded for a reader that is a program
    width = shutil.get_terminal_size((120, 40)).columns if sys.stdout.isatty() else 200
    console = Console(width=width, highlight=False, markup=False, emoji=False, soft_wrap=True)
    evidence = [name for name in _EVIDENCE if plain.get(name)] if "confinement" in plain else []
    told = {name: _less_samples(value) if evidence and isinstance(value, Mapping) else value
            for name, value in plain.items() if name not in evidence}
    _show_mapping(console, told, "")
    if evidence:
        console.print(f"with --json also: {', '.join(evidence)}, samples", style="dim")


def _less_samples(value: Mapping[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if key != "samples"}


def _said(console: Console, prefix: str, name: str, value: str) -> None:
    """One line: a name, and what it is."""
    from rich.text import Text

    console.print(Text.assemble(prefix, (f"{name}: ", "dim"), (value, _COLOURS.get(value, ""))))


def number(value: float) -> str:
    """A number as a person reads it: five significant digits, no exponent where none is needed."""
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15):
        return f"{value:.0f}"
    return f"{value:.5g}" if abs(value) < 1e15 else f"{value:.4e}"


def _show_mapping(console: Console, plain: Mapping[str, Any], prefix: str) -> None:
    names = [*(name for name in _FIRST if name in plain), *(name for name in plain if name not in _FIRST + _UNTOLD)]
    later: list[str] = []
    for name in names:
        value = plain[name]
        if _is_text_block(value) or isinstance(value, Mapping) or _is_rows(value):
            later.append(name)
        elif value is not None and value != [] and value != "":
            _said(console, prefix, name, _one_line(value))
    for name in later:
        _show_block(console, name, plain[name], prefix)


def _show_block(console: Console, name: str, value: Any, prefix: str) -> None:
    if not value:
        return
    if isinstance(value, Mapping) and all(_is_plain(item) and not _is_text_block(item) for item in value.values()):
        told = ", ".join(f"{key}={_one_line(item)}" for key, item in value.items()
                         if item is not None and key not in _UNTOLD)
        if len(told) <= MAPPING_LINE:
            _said(console, prefix, name, told)
            return
    console.print(f"\n{prefix}{name}:", style="bold")
    if isinstance(value, Mapping):
        _show_mapping(console, value, prefix + "  ")
    elif isinstance(value, str):
        for line in clean(value, len(value), lines=True).splitlines():
            console.out(line, highlight=False, style=_diff_style(line) if name == "text" and value.startswith("--- ") else None)
    else:
        _show_rows(console, value)


def _show_rows(console: Console, rows: Sequence[Mapping[str, Any]]) -> None:
    columns = [key for key in dict.fromkeys(key for row in rows for key in row)
               if any(_is_plain(row.get(key)) and row.get(key) not in (None, "", []) for row in rows)]
    columns = [column for column in columns if _SAID_BY.get(column) not in columns]
    cells = {column: [_one_line(row.get(column), PROSE_LIMIT if column in _PROSE else CELL_LIMIT)
                      for row in rows[:ROWS_SHOWN]] for column in columns}
    widths = {column: max(map(len, [column, *cells[column]])) for column in columns}
    needed = sum(width + 2 for column, width in widths.items() if column not in _PROSE)
    if needed > console.width and len(rows) <= FEW_ROWS:
        for row in rows:
            console.print("  " + ", ".join(f"{column}={_one_line(row[column])}" for column in columns
                                           if row.get(column) not in (None, "", [])))
        return
    if console.is_terminal:
        left = _fitting(widths, console.width)
    else:
        left, console.width = columns, max(console.width, sum(width + 2 for width in widths.values()))
    _print_table(console, rows, {column: cells[column] for column in left}, widths)
    if len(rows) > ROWS_SHOWN:
        console.print(f"… and {len(rows) - ROWS_SHOWN} more; --json has them all")
    if len(left) < len(columns):
        console.print(f"left out, to fit: {', '.join(column for column in columns if column not in left)}", style="dim")


def _fitting(widths: Mapping[str, int], room: int) -> list[str]:
    """The columns that fit side by side, those that say most first; in their own order."""
    columns = list(widths)
    ranked = sorted(columns, key=lambda each: _KEPT.index(each) if each in _KEPT else len(_KEPT) + columns.index(each))
    kept: list[str] = []
    for column in ranked:
        needed = (min(widths[column], PROSE_WIDTH) if column in _FOLDED else widths[column]) + 2
        if needed <= room or len(kept) < 2:
            kept.append(column)
            room -= needed
    return [column for column in columns if column in kept]


def _print_table(console: Console, rows: Sequence[Mapping[str, Any]], cells: Mapping[str, Sequence[str]],
                 widths: Mapping[str, int]) -> None:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in cells:
        is_number = all(isinstance(row.get(column), (int, float, type(None))) for row in rows)
        is_prose = column in _FOLDED
        table.add_column(Text(column), justify="right" if is_number else "left", no_wrap=not is_prose,
                         overflow="fold" if is_prose else "ellipsis",
                         min_width=min(widths[column], PROSE_WIDTH) if is_prose else widths[column])
    for row in zip(*cells.values(), strict=True):
        # a Text is shown as it is: markup in a kernel's name is none
        table.add_row(*(Text(cell, style=_COLOURS.get(cell, "")) for cell in row))
    console.print(table)


def _diff_style(line: str) -> str | None:
    styles = {"+": "green", "-": "red", "@": "cyan"}
    return styles.get(line[:1])


def _one_line(value: Any, limit: int = 400) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (int, float)):
        return number(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ", ".join(_one_line(item) for item in value[:12]) + (" …" if len(value) > 12 else "")
    first, *more = str(value).strip().splitlines() or [""]
    return clean(first, limit) + (f" … ({len(more) + 1} lines)" if more else "")


def _row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={_scalar(value)}" for name, value in row.items() if _is_told(value))[:400]


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return clean(value, 400) if isinstance(value, str) else str(value)


def _is_told(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and value != "" and not _is_text_block(value)


def _is_plain(value: Any) -> bool:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return all(isinstance(item, (str, int, float, bool, type(None))) for item in value)
    return isinstance(value, (str, int, float, bool, type(None)))


def _is_text_block(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


def _is_rows(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(item, Mapping) for item in value)
