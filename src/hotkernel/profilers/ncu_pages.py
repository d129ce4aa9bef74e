"""Reads ncu's printed pages: details and raw as CSV, details as text, of every version seen; runs nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from hotkernel.errors import ToolError
from hotkernel.profilers import kernel_names, ncu, ncu_metrics, tables
from hotkernel.profilers.ncu_metrics import Measured
from hotkernel.profilers.report import Findings
from hotkernel.profilers.tables import NumberStyle, Table
from hotkernel.schema.profile import Advice

DETAILS = [frozenset({"id", "kernel name", "metric name", "metric value"})]
RAW = [frozenset({"id", "kernel name", "process id"})]
_LAUNCH_LINE = re.compile(
    r"^ {0,4}(\S.*?)(?:, \d{4}-\w{3}-\d{2} [\d:]+)?, Context \d+, Stream \d+(?:, Device (\d+))?", re.M
)
_SIZES = re.compile(r"^(.*?)\s*\((\d+), (\d+), (\d+)\)x\((\d+), (\d+), (\d+)\)$")
_TEXT_RULE = re.compile(r"^ {4}(OPT|INF|WRN)\s+(\S.*)$")
_SPEEDUP = re.compile(r"Est\. (?:(Local) )?Speedup: ([\d.,]+)%\s*")
_NOTES = re.compile(r"^==WARNING==\s*(.*)$", re.M)


def parse(text: str) -> Findings | None:
    """The launches on one of ncu's pages; None where it is none.

    Raises ToolError for a page without launches, and for a log that says why nothing was profiled.
    """
    if (found := tables.find(text, DETAILS)) is not None:
        return _finish(_details(found), "csv", found.before, _rounding(found))
    if (found := tables.find(text, RAW)) is not None:
        return _finish(_raw(found), "raw csv", found.before)
    if re.search(r'^"?Kernel Name"?,', text, re.M) and re.search(r'^"?Address"?,"?Source"?', text, re.M):
        raise ToolError("this is ncu's source page: a listing, with no launches and no metrics",
                        fix="export --page details --csv instead, or give the .ncu-rep")
    if re.search(r"^ {4}Section: \S", text, re.M):
        return _finish(_text(text), "text", "")
    if "==ERROR==" in text or "==PROF==" in text:
        known = ncu.failure(text)
        raise known or ToolError("this is a log of ncu without any result", detail=ncu.words(text),
                                 fix="give the .ncu-rep, or ncu's --csv output")
    return None


def _finish(launches: Sequence[Measured], form: str, before: str, notes: Sequence[str] = ()) -> Findings:
    said = [f"ncu warned: {kernel_names.cut(note)}" for note in _NOTES.findall(before)[:3]]
    return ncu_metrics.findings(launches, form, [*said, *notes])


def _rounding(table: Table) -> tuple[str, ...]:
    """The page prints two decimals: 98,304 bytes as 98.30 Kbyte."""
    units = {record.get("Metric Unit", "") for record in table.records()}
    scaled = any(re.match(r"[KMGT]byte", unit) for unit in units)
    return ("figures are rounded as the page prints them; --print-units base gives bytes in full",) if scaled else ()


def _details(table: Table) -> list[Measured]:
    """One line a metric or rule; a launch is known by its process and its ID."""
    launches: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for record in table.records():
        if record.get("ID", "").isdigit():
            launches.setdefault((record.get("Process ID", ""), record["ID"]), []).append(record)
    lines = [record for records in launches.values() for record in records]
    # A list of TPC numbers such as `0,1` is no number.
    values = tables.number_style(
        record.get("Metric Value", "") for record in lines if not record.get("Metric Name", "").endswith("IDs")
    )
    estimates = tables.number_style(record.get("Estimated Speedup", "") for record in lines)
    return [_launch(records, values, NumberStyle(estimates.decimal or ".")) for records in launches.values()]


def _launch(records: Sequence[Mapping[str, str]], values: NumberStyle, estimates: NumberStyle) -> Measured:
    measured: list[tuple[str, str, float]] = []
    rules: list[Advice | None] = []
    for record in records:
        value = values.read(record.get("Metric Value", ""))
        if record.get("Metric Name") and value is not None:
            measured.append((record["Metric Name"], record.get("Metric Unit", ""), value))
        if record.get("Rule Name"):
            rules.append(ncu_metrics.make_advice(
                record["Rule Name"], record.get("Rule Type", ""), record.get("Rule Description", ""),
                estimates.read(record.get("Estimated Speedup", "")), record.get("Estimated Speedup Type", ""),
            ))
    return _measured(records[0], measured, rules)


def _measured(
    first: Mapping[str, str], values: Sequence[tuple[str, str, float]], rules: Iterable[Advice | None] = ()
) -> Measured:
    """A launch from the columns that every page has."""
    device, process = first.get("Device", ""), first.get("Process ID", "")
    return Measured(
        int(first["ID"]), first.get("Kernel Name", ""), values, ncu_metrics.advice(rules),
        _three(first.get("Grid Size", "")), _three(first.get("Block Size", "")),
        int(device) if device.isdigit() else None, None,
        int(process) if process.isdigit() else None, first.get("Process Name"),
    )


def _raw(table: Table) -> list[Measured]:
    """One line a launch, one column a metric; the first line under the header holds the units."""
    lines = list(table.records())
    units = lines[0] if lines and not lines[0].get("ID") else {}
    wanted = set(ncu_metrics.wanted())
    launches = [line for line in lines if line.get("ID", "").isdigit()]
    style = tables.number_style(
        text for line in launches for name, text in line.items() if name in wanted or ("__" in name and units.get(name))
    )
    found = []
    for line in launches:
        read = ((name, units.get(name, ""), style.read(text)) for name, text in line.items() if name in wanted)
        found.append(_measured(line, [(name, unit, value) for name, unit, value in read if value is not None]))
    return found


def _three(text: str) -> tuple[int, ...] | None:
    """`(256, 1, 1)`, or `256, 1, 1` as some versions write it."""
    numbers = re.findall(r"\d+", text)
    return tuple(map(int, numbers)) if len(numbers) == 3 else None


def _text(text: str) -> list[Measured]:
    """The details page for people: a line names each launch; without one the sections are one unnamed launch."""
    starts = list(_LAUNCH_LINE.finditer(text))
    style = tables.number_style(value for _, _, value in _text_metrics(text))
    if not starts:
        return [_text_launch(0, kernel_names.UNNAMED, None, text, style)]
    ends = [*(match.start() for match in starts[1:]), len(text)]
    return [
        _text_launch(number, match[1], match[2], text[match.end() : end], style)
        for number, (match, end) in enumerate(zip(starts, ends, strict=True))
    ]


def _text_launch(number: int, title: str, device: str | None, body: str, style: NumberStyle) -> Measured:
    sizes = _SIZES.match(title)
    read = ((name, unit, style.read(value)) for name, unit, value in _text_metrics(body))
    return Measured(
        number, sizes[1] if sizes else title,
        [(name, unit, value) for name, unit, value in read if value is not None],
        ncu_metrics.advice(_text_rules(body)),
        tuple(map(int, sizes.groups()[1:4])) if sizes else None,
        tuple(map(int, sizes.groups()[4:7])) if sizes else None,
        int(device) if device else None,
    )


def _text_metrics(text: str) -> list[tuple[str, str, str]]:
    """Name, unit and value of each line between the second and third line of dashes of a section."""
    found = []
    spans: list[tuple[int, int]] | None = None
    for line in text.splitlines():
        if re.fullmatch(r"\s+-+ -+ -+\s*", line):
            spans = [match.span() for match in re.finditer(r"-+", line)]
        elif not line.strip() or spans is None:
            spans = None
        elif "Metric Name" not in line and len(line) > spans[2][0]:
            (_, name), (left, right), (value, _) = spans
            found.append((line[:name].strip(), line[left:right].strip(), line[value:].strip()))
    return found


def _text_rules(text: str) -> list[Advice | None]:
    """Rules stand under their section, wrapped, marked OPT, INF or WRN; their identifiers are not printed."""
    found: list[tuple[str, str, list[str]]] = []
    section = ""
    for line in text.splitlines():
        if match := re.match(r"^ {4}Section: (.*)$", line):
            section = match[1]
        elif match := _TEXT_RULE.match(line):
            found.append((section, match[1], [match[2]]))
        elif found and found[-1][2] and re.match(r"^ {10}\S", line):
            found[-1][2].append(line.strip())
        elif not line.strip() and found:
            found.append(("", "", []))  # ends the rule
    return [_text_rule(section, kind, " ".join(lines)) for section, kind, lines in found if lines]


def _text_rule(section: str, kind: str, text: str) -> Advice | None:
    estimate = _SPEEDUP.match(text)
    speedup = NumberStyle(".").read(estimate[2]) if estimate else None
    scope = "local" if estimate and estimate[1] else "global"
    return ncu_metrics.make_advice(section, kind, _SPEEDUP.sub("", text, count=1), speedup, scope)
