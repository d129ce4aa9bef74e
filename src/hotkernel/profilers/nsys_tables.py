"""Reads what `nsys stats` prints: the kernel summary and the GPU trace as CSV, and the summary as text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from hotkernel.errors import ToolError
from hotkernel.profilers import kernel_names, nsys, tables
from hotkernel.profilers.report import Findings, Tally, exact, idle_pct, rank
from hotkernel.profilers.tables import NumberStyle, Table
from hotkernel.schema.profile import CopyRow, KernelRow

# Time(%) until 2021, Time (%) since; `Name` last; the kernel summary counts Instances, the API summary Num Calls.
_SHARE = ("time(%)", "time (%)")
SUMMARY = [frozenset({share, "instances", "name"}) for share in _SHARE]
MEMORY = [frozenset({share, "operation"}) for share in _SHARE]
OTHER_SUMMARY = [frozenset({share, "name"}) for share in _SHARE]
TRACE = [frozenset({"corrid", "grdx", "name"}), frozenset({"corrid", "grid x", "name"})]
_UNITS_US = {"ns": 0.001, "nsec": 0.001, "us": 1.0, "µs": 1.0, "usec": 1.0, "ms": 1000.0, "msec": 1000.0,
             "s": 1e6, "sec": 1e6}
_GRAPH_CALL = re.compile(r"^\s*[\d.,]+\s+[\d.,]+\s+(\d+)\s.*\bcu(?:da)?GraphLaunch\w*\s*$", re.M)
_OTHER_FIX = "export the kernel summary: nsys stats --report cuda_gpu_kern_sum --format csv REPORT; or give the .sqlite"


def parse(text: str) -> Findings | None:
    """The kernels in what `nsys stats` printed; None where it is no such text.

    Raises ToolError where it is another of nsys's tables.
    """
    if (found := tables.find(text, TRACE)) is not None:
        return _trace(found)
    if (found := tables.find(text, SUMMARY)) is not None:
        return _summary(found.records(), "csv", found.columns, text)
    if (found := tables.find(text, MEMORY)) is not None:
        return Findings("nsys", "csv", copies=_copies(found), reason="this is nsys's summary of copies, not of kernels")
    if (found := tables.find(text, OTHER_SUMMARY)) is not None:
        raise ToolError("this is one of nsys's tables, but not of kernels", fix=_OTHER_FIX)
    return _text(text)


def _summary(records: Iterable[Mapping[str, str]], form: str, columns: Iterable[str], text: str) -> Findings:
    """Rows as they stand: names that nsys cut may be alike and yet be different kernels, so none are merged."""
    names = {_key(column): column for column in columns}
    kept = list(_until_next_report(records))
    total_column = next((names[key] for key in names if key.startswith("total time")), None)
    if total_column is None:
        raise ToolError("the kernel summary has no column of total times", fix=_OTHER_FIX)
    unit = _unit_us(total_column)
    style = tables.number_style(
        value for record in kept for column, value in record.items() if column not in ("Name", "GridXYZ", "BlockXYZ")
    )
    rows, broken = [], 0
    for record in kept:
        row = _row(record, names, total_column, unit, style)
        rows.append(row) if row else None
        broken += row is None
    graphs = sum(int(count) for count in _GRAPH_CALL.findall(text))
    warnings = [nsys.GRAPHS_HIDDEN.format(count=graphs)] if graphs else []
    if broken:
        warnings.append(f"{broken} broken lines were left out (another stream's text within the table)")
    if any(row.name.endswith("…") for row in rows):
        warnings.append("nsys cut the names in this text: rows with one name may be different kernels")
    return Findings("nsys", form, rank(rows), reason=None if rows else nsys.NO_KERNEL, warnings=tuple(warnings))


def _row(
    record: Mapping[str, str], names: Mapping[str, str], total_column: str, unit: float, style: NumberStyle
) -> KernelRow | None:
    def number(*keys: str) -> float | None:
        column = next((names[key] for key in keys if key in names), None)
        return None if column is None else style.read(record.get(column, ""))

    total, calls, name = style.read(record.get(total_column, "")), number("instances"), record.get(names["name"], "")
    if total is None or total < 0 or calls is None or calls < 1 or not name:
        return None
    low, high = number("min", "minimum"), number("max", "maximum")
    return KernelRow(
        name=name, short_name="", calls=int(calls), device_time_us=exact(total * unit),
        min_us=None if low is None else exact(low * unit), max_us=None if high is None else exact(high * unit),
        grid=_three(record.get(names.get("gridxyz", ""), "")), block=_three(record.get(names.get("blockxyz", ""), "")),
    )


def _until_next_report(records: Iterable[Mapping[str, str]]) -> Iterator[dict[str, str]]:
    """The table's own rows: several reports in one file follow each other with a line `Processing […]` between."""
    for record in records:
        first = next(iter(record.values()), "")
        if first.startswith(("Processing [", "Generating ", " ** ")):
            return
        yield dict(record)


def _key(column: str) -> str:
    """A column's name without its unit: `Avg (ns)`, `Average` and `Min (ns)` differ between versions."""
    return re.sub(r"\s*\([^)]*\)", "", column).strip().lower()


def _unit_us(column: str) -> float:
    match = re.search(r"\(\s*([a-zµ]+)\s*\)", column)
    if match and match[1] not in _UNITS_US:
        raise ToolError(f"the column {column!r} has a unit that is not known", fix=_OTHER_FIX)
    return _UNITS_US[match[1]] if match else 0.001


def _three(text: str) -> tuple[int, ...] | None:
    numbers = re.findall(r"\d+", text)
    return tuple(map(int, numbers[:3])) if numbers else None


def _copies(table: Table) -> tuple[CopyRow, ...]:
    names = {_key(column): column for column in table.columns}
    total = next((names[key] for key in names if key.startswith("total time")), None)
    if total is None or "count" not in names:
        return ()
    records = list(_until_next_report(table.records()))
    style = tables.number_style(record.get(total, "") for record in records)
    rows = []
    for record in records:
        time, count = style.read(record.get(total, "")), style.read(record.get(names["count"], ""))
        if time is not None and count:
            name = _copy_name(record.get(names["operation"], ""))
            rows.append(CopyRow(name, int(count), exact(time * _unit_us(total))))
    return tuple(rows)


def _trace(table: Table) -> Findings:
    """`cuda_gpu_trace`: one line a kernel, copy or fill, in order of time."""
    names = {_key(column): column for column in table.columns}
    start_column, length_column = names.get("start", ""), names.get("duration", "")
    if not start_column or not length_column:
        raise ToolError("the GPU trace has no start or duration column", fix=_OTHER_FIX)
    records = list(_until_next_report(table.records()))
    style = tables.number_style(
        value for record in records for column, value in record.items() if column not in ("Name", names.get("device"))
    )
    start_us, length_us = _unit_us(start_column), _unit_us(length_column)
    tally, cards, broken = Tally(unit_us=1.0), {}, 0
    for record in records:
        start, length = style.read(record.get(start_column, "")), style.read(record.get(length_column, ""))
        if start is None or length is None:
            broken += 1
            continue
        card, device = _card(record.get(names.get("device", ""), ""))
        cards[device] = card
        _add(tally, record, names, style, start * start_us, length * length_us, device)
    rows = tally.rows()
    devices = tally.devices({device: card for device, card in cards.items() if device is not None})
    warnings = (f"{broken} broken lines were left out",) if broken else ()
    return Findings("nsys", "trace csv", rows, tally.copies(), devices, gpu_idle_pct=idle_pct(devices),
                    reason=None if rows else nsys.NO_KERNEL, warnings=warnings)


def _add(
    tally: Tally, record: Mapping[str, str], names: Mapping[str, str], style: NumberStyle, start: float, length: float,
    device: int | None,
) -> None:
    def whole(*keys: str) -> int | None:
        column = next((names[key] for key in keys if key in names), None)
        value = None if column is None else style.read(record.get(column, ""))
        return None if value is None else int(value)

    name = record.get(names["name"], "")
    grid = [whole(f"grd{axis}", f"grid {axis}") for axis in "xyz"]
    if name.startswith("[CUDA mem") or grid[0] is None:
        tally.add_copy(_copy_name(name), start, length, device, None)
        return
    facts = {"grid": tuple(grid), "block": tuple(whole(f"blk{axis}", f"block {axis}") for axis in "xyz"),
             "registers_per_thread": whole("reg/trd")}
    tally.add(name, start, length, device=device, facts=facts)


def _copy_name(text: str) -> str:
    """`[CUDA memcpy Device-to-Device]` as the database calls it."""
    return kernel_names.cut(text.strip("[]").removeprefix("CUDA "))


def _card(text: str) -> tuple[str | None, int | None]:
    """`NVIDIA H200 (0)` as name and number."""
    match = re.fullmatch(r"(.*?)\s*\((\d+)\)\s*", text)
    return (match[1], int(match[2])) if match else (text.strip() or None, None)


def _text(text: str) -> Findings | None:
    """The kernel summary as `nsys stats` prints it for people: columns by the dashes under the header."""
    lines = text.splitlines()
    for index, line in enumerate(lines[:-1]):
        dashes = [match.span() for match in re.finditer(r"-+", lines[index + 1])]
        if "Instances" not in line or not re.fullmatch(r"[\s-]+", lines[index + 1]) or len(dashes) < 3:
            continue
        columns = [line[start:end].strip() for start, end in dashes[:-1]] + [line[dashes[-1][0] :].strip()]
        if columns[-1] == "Name":
            return _summary(_text_rows(lines[index + 2 :], columns, dashes), "text", columns, text)
    if "does not contain CUDA kernel data" in text:
        return Findings("nsys", "text", reason=nsys.NO_KERNEL)
    return None


def _text_rows(lines: Iterable[str], columns: list[str], dashes: list[tuple[int, int]]) -> Iterator[dict[str, str]]:
    for line in lines:
        if not line.strip():
            return
        fields = [line[start:end].strip() for start, end in dashes[:-1]] + [line[dashes[-1][0] :].strip()]
        yield dict(zip(columns, fields, strict=True))
