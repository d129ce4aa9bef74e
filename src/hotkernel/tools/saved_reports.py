"""Reads a saved report into findings by what the file holds, not by its name; shows nothing."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.machine import programs, reports
from hotkernel.profilers import ncu, ncu_metrics, ncu_pages, nsys, nsys_tables, report, trace
from hotkernel.profilers.report import Findings
from hotkernel.session import Session

EXPORT_TIMEOUT_S = 600.0
_KNOWN = "an nsys .sqlite, .nsys-rep or kernel summary (CSV, text), an ncu .ncu-rep or CSV, or a torch.profiler trace"


def read(session: Session, file: Path) -> Findings:
    """Everything a report says. Raises ToolError where it is none, or one without launches by its nature."""
    kind = report.kind_of(reports.head(file))
    if kind == "sqlite":
        return read_database(file)
    if kind == "nsys-rep":
        return _nsys_report(session, file)
    if kind == "ncu-rep":
        return read_ncu_report(session, file)
    if kind == "json":
        return read_trace(file)
    if kind == "text":
        return _text(file)
    if file.suffix == ".qdstrm":
        raise ToolError(f"{file.name} is nsys's raw stream, no report yet", fix=nsys.QDSTRM_FIX.format(stream=file))
    what = "is empty" if kind == "empty" else "is not a report that is known"
    raise ToolError(f"{file.name} {what}", fix=f"give {_KNOWN}")


def read_database(file: Path) -> Findings:
    """An nsys export. Raises ToolError for another program's database."""
    with reports.database(file) as ask:
        tables = reports.columns(ask)
        if "StringIds" not in tables:
            raise ToolError(f"{file.name} is a SQLite file, but cannot be read as nsys's",
                            fix="give what `nsys export --type sqlite` wrote")
        return nsys.parse_database({answer: ask(sql) for answer, sql in nsys.queries(tables).items()})


def read_trace(file: Path) -> Findings:
    """A torch.profiler trace."""
    opened = reports.Trace(file)
    found = trace.summarise(opened.events(), opened.device_names)
    return found.noting(*opened.warnings())


def events(file: Path) -> Iterator[Mapping[str, Any]]:
    """A torch.profiler trace, event by event."""
    return reports.Trace(file).events()


def read_ncu_report(session: Session, file: Path) -> Findings:
    """A `.ncu-rep`, by NVIDIA's reader where it is installed, else by ncu itself."""
    if reports.has_ncu_report():
        actions = reports.ncu_actions(session.job, file, ncu_metrics.wanted())
        launches = [ncu_metrics.from_action(number, action) for number, action in enumerate(actions)]
        return ncu_metrics.findings(launches, "ncu-rep")
    try:
        program = programs.find("ncu", session.environment)
    except ToolError:
        raise ToolError(f"nothing here can read {file.name}", fix=reports.NCU_REPORT_FIX) from None
    finished = session.job.run(ncu.import_command(str(program), str(file)), timeout_s=EXPORT_TIMEOUT_S,
                               env=session.environment)
    found = ncu_pages.parse(finished.stdout) if finished.ok else None
    if found is None:
        raise ToolError(f"ncu could not import {file.name}", fix="use an ncu at least as new as the report's",
                        detail=ncu.words(finished.stderr + finished.stdout))
    return found


def export(session: Session, program: Path, file: Path, output: Path) -> Path:
    """Turn an nsys report into a database at `output`."""
    finished = session.job.run(nsys.export_command(str(program), str(file), str(output)), timeout_s=EXPORT_TIMEOUT_S,
                               env=session.environment)
    if not finished.ok or not output.is_file():
        raise ToolError(f"nsys could not export {file.name}", fix="use an nsys at least as new as the report's",
                        detail=nsys.said_tail(finished.stderr + finished.stdout))
    return output


def _nsys_report(session: Session, file: Path) -> Findings:
    """A `.nsys-rep`: by the export beside it where that is not older, else by nsys."""
    beside = file.with_suffix(".sqlite")
    with contextlib.suppress(OSError):
        if beside.stat().st_mtime >= file.stat().st_mtime:
            return read_database(beside).noting(f"read from {beside.name}, the export beside the report")
    program = programs.find("nsys", session.environment)
    with tempfile.TemporaryDirectory(prefix="hotkernel-nsys-") as folder:
        return read_database(export(session, program, file, Path(folder) / "report.sqlite"))


def _text(file: Path) -> Findings:
    text = reports.text(file)
    found = ncu_pages.parse(text) or nsys_tables.parse(text)
    if found is None:
        raise ToolError(f"{file.name} is not a report that is known", fix=f"give {_KNOWN}")
    return found
