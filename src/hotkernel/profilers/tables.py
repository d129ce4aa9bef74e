"""Finds a table in a profiler's text and reads its numbers, whatever stands before it; knows no program's columns."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hotkernel.errors import ToolError

DELIMITERS = ",;\t"
_NUMBER = re.compile(r"[+-]?[\d.,]*\d[\d.,]*(?:[eE][+-]?\d+)?")
_NO_VALUE = frozenset({"", "n/a", "no data", "nan", "-nan", "nan(ind)", "-nan(ind)", "inf", "-inf", "-", "(!) n/a"})
# ncu's prefixes are decimal: 32.77 Kbyte is 32,768 bytes.
_PREFIXES = {"n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "": 1.0,
             "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BASES = {"second": "s", "sec": "s", "Hz": "hz"}


@dataclass(frozen=True)
class Table:
    """A header and the rows under it; a row has as many fields as it has."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    before: str  # the text ahead of the header

    def records(self) -> Iterator[dict[str, str]]:
        """Each row by column name; fields that a ragged row lacks are left out."""
        for row in self.rows:
            yield dict(zip(self.columns, row, strict=False))


def find(text: str, wanted: Sequence[frozenset[str]]) -> Table | None:
    """The first CSV table whose header holds every name of one of `wanted`, compared without case; None without one."""
    lines = text.removeprefix("\ufeff").splitlines(keepends=True)
    for index, line in enumerate(lines):
        lowered = line.lower()
        if not any(all(name in lowered for name in group) for group in wanted):
            continue
        for delimiter in DELIMITERS:
            if delimiter not in line:
                continue
            header = next(_rows([line], delimiter), ())
            names = {name.strip().lower() for name in header}
            if any(group <= names for group in wanted):
                columns = tuple(name.strip() for name in header)
                return Table(columns, tuple(_rows(lines[index + 1 :], delimiter)), "".join(lines[:index]))
    return None


def _rows(lines: Iterable[str], delimiter: str) -> Iterator[tuple[str, ...]]:
    csv.field_size_limit(10_000_000)  # a template's name runs past the default of 131,072
    try:
        for row in csv.reader(io.StringIO("".join(lines), newline=""), delimiter=delimiter):
            if row:
                yield tuple(row)
    except csv.Error as error:
        raise ToolError(f"the table cannot be read as CSV: {error}", fix="export the report again") from None


@dataclass(frozen=True)
class NumberStyle:
    """How a file writes numbers; `decimal` is None where no number of the file tells."""

    decimal: str | None

    def read(self, text: str) -> float | None:
        """The number that `text` is; None where it is none, and for words such as `n/a`."""
        text = re.sub(r"[\s\u00a0\u202f\u2009']", "", text)
        if text.lower() in _NO_VALUE or not _NUMBER.fullmatch(text):
            return None
        if self.decimal is None:
            # Without a telling number every mark that stands before three digits parts thousands: ncu and nsys
            # print two decimals, one or six, never three.
            plain = text.replace(",", "").replace(".", "")
        else:
            plain = text.replace("," if self.decimal == "." else ".", "").replace(self.decimal, ".")
        try:
            value = float(plain)
        except ValueError:
            return None
        return value if math.isfinite(value) else None


def number_style(texts: Iterable[str]) -> NumberStyle:
    """Whether these numbers have a decimal point or a decimal comma, from the ones that cannot be both.

    Raises ToolError where they contradict each other: a time that is wrong by a thousand is worse than none.
    """
    votes = {mark for mark in map(_decimal_mark, texts) if mark}
    if len(votes) > 1:
        raise ToolError(
            "the file writes decimals both with a point and with a comma",
            fix="export it again with LC_ALL=C, or give the .ncu-rep / .sqlite itself",
        )
    return NumberStyle(votes.pop() if votes else None)


def _decimal_mark(text: str) -> str | None:
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return None
    marks: list[str] = re.findall(r"[.,]", text)
    if len(set(marks)) == 2:
        return marks[-1]
    if not marks:
        return None
    if len(marks) > 1:
        return "." if marks[0] == "," else ","
    whole, fraction = re.split(r"[.,]", text)
    is_grouping = len(fraction) == 3 and whole.lstrip("+-").isdigit() and 1 <= len(whole.lstrip("+-")) <= 3
    return None if is_grouping and not whole.lstrip("+-").startswith("0") else marks[0]


def to_base(value: float, unit: str) -> tuple[float, str]:
    """A value in ncu's units as (value, base unit): s, byte, hz, and those per something; others stay as they are."""
    unit = unit.strip()
    match = re.fullmatch(r"([nuµmkKMGTP]?)(second|sec|s|byte|hz|Hz)((?:/\w+)?)", unit)
    if match:
        prefix, base, per = match.groups()
        return value * _PREFIXES[prefix], _BASES.get(base, base) + per
    match = re.fullmatch(r"cycle/([nuµm]?)(?:second|s)", unit)  # frequencies, until ncu 2020
    if match:
        return value / _PREFIXES[match[1]], "hz"
    return value, unit
