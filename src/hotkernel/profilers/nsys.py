"""Nsight Systems: how to ask it, what its database says, and why it left no report; runs and reads nothing."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.profilers import kernel_names
from hotkernel.profilers.report import Findings, Tally, idle_pct

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPHS_HIDDEN = (
    "CUDA graphs were launched {count} times and their kernels are not in this report: "
    "record it with --cuda-graph-trace=node, as the profile tool does"
)
NO_KERNEL = (
    "no kernel data in this report. Likely reasons: the command launched no kernel, or did so in a process that nsys "
    "did not follow; WSL2 or an nsys older than the card or driver, which record no kernels; --trace without cuda; "
    "hardware tracing. torch_trace needs no Nsight"
)

# A .qdstrm is the raw stream; the importer turns it into a report (seen with the nsys that lies beside ncu 2025.3.1).
QDSTRM_FIX = (
    "nsys recorded but could not make its report: its importer misses a library, usually libdw.so.1. Install it "
    "(`apt-get install libdw1 libelf1`), or unpack it without rights: `apt-get download libdw1 libelf1`, then "
    "`dpkg -x FILE DIR` for each, then `LD_LIBRARY_PATH=<folder of QdstrmImporter>:DIR/usr/lib/x86_64-linux-gnu "
    "QdstrmImporter -i {stream}` (QdstrmImporter lies in nsys's host-linux-x64 or host/linux-desktop-glibc_* folder), "
    "then top_kernels on the .nsys-rep. torch_trace works without all this"
)


def command(
    nsys: str, argv: Sequence[str], output: str, *, version: tuple[int, ...] | None, only_capture_range: bool
) -> list[str]:
    """The command that records `argv` to `output`.nsys-rep; CPU sampling is off, as it needs rights and disturbs."""
    asked = [nsys, "profile", "--trace=cuda,nvtx", "--sample=none", "--cpuctxsw=none", "--force-overwrite=true"]
    if version is None or version >= (2021, 4):
        asked.append("--cuda-graph-trace=node")  # the default of `graph` hides the kernels of a graph
    if only_capture_range:
        asked += ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"]
    return [*asked, f"--output={output}", *argv]


def export_command(nsys: str, report: str, output: str) -> list[str]:
    """The command that turns a report into a database."""
    return [nsys, "export", "--type=sqlite", "--force-overwrite=true", f"--output={output}", report]


def no_report(said: str, stream: str | None, only_capture_range: bool, exit_code: int) -> ToolError:
    """Why nsys left no report, from what it said and whether it left a raw stream."""
    detail = said_tail(said)
    if stream is not None:
        return ToolError(f"nsys left {stream} and no report", fix=QDSTRM_FIX.format(stream=stream), detail=detail)
    if re.search(r"unrecogni[sz]ed option|unknown option|ambiguous option", said, re.I):
        return ToolError("this nsys does not know an option it was given", detail=detail,
                         fix="install a newer Nsight Systems, or use torch_trace")
    if only_capture_range:
        return ToolError(
            "nsys captured nothing: the target never reached its own calls",
            fix="run the target with plain python and see that it ends well; on a machine without a card it cannot",
            detail=detail,
        )
    fix = "run the command without nsys first" if exit_code else "see the detail; torch_trace needs no Nsight"
    return ToolError(f"nsys ended with exit status {exit_code} and no report", fix=fix, detail=detail)


def said_tail(said: str, limit: int = 2000) -> str:
    """The end of what a program said, made safe to show."""
    return "\n".join(kernel_names.clean(line) for line in said.strip()[-limit:].splitlines())


def queries(tables: Mapping[str, Collection[str]]) -> dict[str, str]:
    """What to ask a database that has these tables and columns (2020 to 2026 differ), by name of the answer."""
    asked: dict[str, str] = {}
    if KERNELS in tables:
        asked["kernels"] = _kernel_query(tables[KERNELS])
    for answer, table in (("copies", "CUPTI_ACTIVITY_KIND_MEMCPY"), ("fills", "CUPTI_ACTIVITY_KIND_MEMSET")):
        if table in tables:
            kind = "copyKind" if answer == "copies" else "NULL"
            asked[answer] = f'SELECT start, "end", deviceId, bytes, {kind} FROM {table}'
    if "ENUM_CUDA_MEMCPY_OPER" in tables:
        asked["copy_kinds"] = "SELECT id, label FROM ENUM_CUDA_MEMCPY_OPER"
    if "CUPTI_ACTIVITY_KIND_GRAPH_TRACE" in tables:
        asked["graphs"] = 'SELECT start, "end", deviceId FROM CUPTI_ACTIVITY_KIND_GRAPH_TRACE'
    if "CUPTI_ACTIVITY_KIND_RUNTIME" in tables:
        asked["graph_launches"] = (
            "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_RUNTIME r JOIN StringIds s ON s.id = r.nameId "
            "WHERE s.value LIKE 'cudaGraphLaunch%' OR s.value LIKE 'cuGraphLaunch%'"
        )
    if "PROCESSES" in tables:
        asked["processes"] = "SELECT pid, name FROM PROCESSES"
    if "TARGET_INFO_CUDA_DEVICE" in tables and "TARGET_INFO_GPU" in tables:
        asked["gpus"] = (
            "SELECT d.cudaId, g.name FROM TARGET_INFO_CUDA_DEVICE d JOIN TARGET_INFO_GPU g ON g.id = d.gpuId"
        )
    elif "TARGET_INFO_GPU" in tables and "cuDevice" in tables["TARGET_INFO_GPU"]:
        asked["gpus"] = "SELECT cuDevice, name FROM TARGET_INFO_GPU"
    if "DIAGNOSTIC_EVENT" in tables:
        asked["diagnostics"] = "SELECT DISTINCT text FROM DIAGNOSTIC_EVENT WHERE severity >= 2 ORDER BY text LIMIT 5"
    return asked


def _kernel_query(columns: Collection[str]) -> str:
    wanted = ["deviceId", "globalPid", "graphNodeId", "registersPerThread", "gridX", "gridY", "gridZ",
              "blockX", "blockY", "blockZ", "staticSharedMemory", "dynamicSharedMemory"]
    picked = ", ".join(_whole(f"k.{name}") if name in columns else "NULL" for name in wanted)
    names = [name for name in ("demangledName", "mangledName", "shortName") if name in columns]
    joins = " ".join(f"LEFT JOIN StringIds {name}s ON {name}s.id = k.{name}" for name in names)
    choices = [f"{name}s.value" for name in names] + ["NULL", f"'{kernel_names.UNNAMED}'"]
    name = f"coalesce({', '.join(choices)})"
    start, end = _whole("k.start"), _whole('k."end"')
    return f"SELECT {start}, {end}, {name}, {picked} FROM {KERNELS} k {joins} ORDER BY k.start"


def _whole(column: str) -> str:
    """SQLite's columns hold anything; a damaged file's do."""
    return f"CAST({column} AS INTEGER)"


def parse_database(answers: Mapping[str, Iterable[Sequence[Any]]]) -> Findings:
    """What the answers to `queries` say; an answer that is missing had no table."""
    tally = Tally(unit_us=0.001)
    in_graphs = bad = 0
    for start, end, name, device, process, node, registers, gx, gy, gz, bx, by, bz, fixed, dynamic in answers.get(
        "kernels", ()
    ):
        if start is None or end is None or end < start:
            bad += 1
            continue
        in_graphs += node is not None
        facts = {"grid": (gx, gy, gz), "block": (bx, by, bz), "registers_per_thread": registers,
                 "shared_bytes": None if fixed is None else fixed + (dynamic or 0)}
        tally.add(name, start, end - start, device=device, process=pid_of(process), in_graph=node is not None,
                  facts=facts if gx is not None else {})
    _add_copies(tally, answers)
    graphs = list(answers.get("graphs", ()))
    for start, end, device in graphs:
        tally.occupy(start, end - start, device)
    rows = tally.rows(knows_graphs=True)
    devices = tally.devices(_pairs(answers.get("gpus", ())))
    return Findings(
        "nsys", "sqlite", rows, tally.copies(), devices,
        tally.processes(_pairs(answers.get("processes", ()))),
        gpu_idle_pct=idle_pct(devices),
        reason=None if rows else _reason(answers),
        warnings=_warnings(graphs, _count(answers.get("graph_launches", ())), in_graphs, bad),
    )


def _pairs(rows: Iterable[Sequence[Any]]) -> dict[int, str | None]:
    return {row[0]: row[1] for row in rows}


def pid_of(global_pid: int | None) -> int | None:
    """The process number inside nsys's global one: its bits 24 to 47."""
    return None if global_pid is None else (global_pid >> 24) & 0xFFFFFF


def _add_copies(tally: Tally, answers: Mapping[str, Iterable[Sequence[Any]]]) -> None:
    kinds = _pairs(answers.get("copy_kinds", ()))
    usual = {1: "Host-to-Device", 2: "Device-to-Host", 8: "Device-to-Device", 10: "Peer-to-Peer"}
    for start, end, device, moved, kind in answers.get("copies", ()):
        tally.add_copy(f"memcpy {kinds.get(kind) or usual.get(kind, kind)}", start, end - start, device, moved)
    for start, end, device, moved, _ in answers.get("fills", ()):
        tally.add_copy("memset", start, end - start, device, moved)


def _count(rows: Iterable[Sequence[Any]]) -> int:
    return next((row[0] for row in rows), 0)


def _reason(answers: Mapping[str, Iterable[Sequence[Any]]]) -> str:
    said = [str(text) for (text,) in answers.get("diagnostics", ())]
    if not said:
        return NO_KERNEL
    return f"{NO_KERNEL}. nsys itself said: {kernel_names.cut(' / '.join(said))}"


def _warnings(graphs: list[Sequence[Any]], launches: int, in_graphs: int, bad: int) -> tuple[str, ...]:
    said = []
    if graphs:
        time_us = sum(end - start for start, end, _ in graphs) / 1000
        said.append(f"{len(graphs)} CUDA graphs are in this report as wholes ({time_us:.1f} us together, not in the "
                    "rows): record it with --cuda-graph-trace=node to see their kernels")
    elif launches and not in_graphs:
        said.append(GRAPHS_HIDDEN.format(count=launches))
    if bad:
        said.append(f"{bad} launches with no or a negative duration were left out")
    return tuple(said)
