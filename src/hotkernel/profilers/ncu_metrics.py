"""Turns what ncu measured of one launch into a row: names of metrics, hint, advice; reads no file."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hotkernel.profilers import kernel_names, tables
from hotkernel.profilers.report import TEXT_LIMIT, Findings, exact, rank, total_us
from hotkernel.schema.profile import Advice, DeviceTime, KernelRow, NcuMetrics, ProcessTime

NO_DURATION = "{count} launches have no duration (not collected, or the launch failed): they are last, and in no total"

# A metric's names: the counter's own, then the details page's (2019 to 2026); a unit where a name has two meanings.
_NAMES: dict[str, tuple[tuple[str, str | None], ...]] = {
    "duration_s": (("gpu__time_duration.sum", None), ("gpu__time_duration.avg", None), ("Duration", None)),
    "achieved_occupancy_pct": (
        ("sm__warps_active.avg.pct_of_peak_sustained_active", None), ("Achieved Occupancy", None)),
    "theoretical_occupancy_pct": (
        ("sm__maximum_warps_per_active_cycle_pct", None), ("Theoretical Occupancy", None)),
    "dram_throughput_pct": (
        ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", None),
        ("dram__throughput.avg.pct_of_peak_sustained_elapsed", None),
        ("DRAM Throughput", "%"), ("SOL DRAM", "%"), ("SOL FB", "%")),
    "memory_throughput_pct": (
        ("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", None),
        ("Memory Throughput", "%"), ("Memory [%]", "%"), ("SOL Memory", "%")),
    "sm_throughput_pct": (
        ("sm__throughput.avg.pct_of_peak_sustained_elapsed", None),
        ("Compute (SM) Throughput", "%"), ("SM [%]", "%"), ("SOL SM", "%")),
    "l1_throughput_pct": (
        ("l1tex__throughput.avg.pct_of_peak_sustained_active", None), ("L1/TEX Cache Throughput", "%")),
    "l2_throughput_pct": (
        ("lts__throughput.avg.pct_of_peak_sustained_elapsed", None), ("L2 Cache Throughput", "%"), ("SOL L2", "%")),
    "l2_hit_pct": (("lts__t_sector_hit_rate.pct", None), ("L2 Hit Rate", "%")),
    "dram_bytes_per_s": (("dram__bytes.sum.per_second", None), ("Memory Throughput", "byte/s")),
    "dram_read_bytes": (("dram__bytes_read.sum", None), ("dram__bytes_op_read.sum", None)),
    "dram_write_bytes": (("dram__bytes_write.sum", None), ("dram__bytes_op_write.sum", None)),
    "static_smem_per_block": (
        ("launch__shared_mem_per_block_static", None), ("Static Shared Memory Per Block", None)),
    "dynamic_smem_per_block": (
        ("launch__shared_mem_per_block_dynamic", None), ("Dynamic Shared Memory Per Block", None)),
    "spill_requests": (
        ("derived__local_spilling_requests", None), ("sass__inst_executed_register_spilling", None),
        ("Local Memory Spilling Requests", None)),
    "spill_share_pct": (
        ("derived__local_spilling_requests_pct", None), ("Local Memory Spilling Request Overhead", "%")),
    "stack_bytes": (("launch__stack_size", None), ("Stack Size", None)),
    "waves_per_sm": (("launch__waves_per_multiprocessor", None), ("Waves Per SM", None)),
    "sm_frequency_hz": (
        ("gpc__cycles_elapsed.avg.per_second", None), ("SM Frequency", "hz")),
    "dram_frequency_hz": (("dram__cycles_elapsed.avg.per_second", None), ("DRAM Frequency", "hz")),
    "registers_per_thread": (("launch__registers_per_thread", None), ("Registers Per Thread", None)),
    "grid_size": (("launch__grid_size", None), ("Grid Size", None)),
    "block_size": (("launch__block_size", None), ("Block Size", None)),
}
_WHOLE = frozenset({"static_smem_per_block", "dynamic_smem_per_block", "spill_requests", "stack_bytes"})
# Asked of ncu_report beside the above.
_LAUNCH = tuple(f"launch__{what}_dim_{axis}" for what in ("grid", "block") for axis in "xyz")
_DEVICE = ("device__attribute_device_index", "device__attribute_display_name", "launch__device_id")
_BOUND_PCT = 60.0  # ncu calls a unit under-used below 60 % of its peak
_KINDS = {"OPT": "opt", "WRN": "warning", "INF": "note", 1: "note", 2: "opt", 3: "warning"}
_SCOPES = {1: "local", 2: "global", "local": "local", "global": "global"}


@dataclass(frozen=True)
class Measured:
    """One launch as a report gives it: values with their units, by any name that ncu has for them."""

    launch: int
    name: str
    values: Sequence[tuple[str, str, float]]  # name, unit, value
    advice: tuple[Advice, ...] = ()
    grid: tuple[int, ...] | None = None
    block: tuple[int, ...] | None = None
    device: int | None = None
    device_name: str | None = None
    process: int | None = None
    process_name: str | None = None


def wanted() -> tuple[str, ...]:
    """The counters to ask ncu_report for."""
    counters = [name for names in _NAMES.values() for name, _ in names if "__" in name]
    return (*counters, *_LAUNCH, *_DEVICE)


def from_action(launch: int, action: Mapping[str, Any]) -> Measured:
    """A launch out of what ncu_report gave: name, metrics as (value, unit), rules as dicts."""
    metrics: Mapping[str, tuple[Any, str]] = action["metrics"]

    def whole(name: str) -> int | None:
        value = metrics.get(name, (None, ""))[0]
        return int(value) if isinstance(value, (int, float)) and math.isfinite(value) else None

    def three(what: str) -> tuple[int, ...] | None:
        sizes = tuple(whole(f"launch__{what}_dim_{axis}") for axis in "xyz")
        return None if None in sizes else tuple(size for size in sizes if size is not None)

    device = whole("launch__device_id")
    card = metrics.get("device__attribute_display_name", (None, ""))[0]
    return Measured(
        launch, str(action["name"]),
        [(name, unit, float(value)) for name, (value, unit) in metrics.items() if isinstance(value, (int, float))],
        advice([rule_of(rule) for rule in action["rules"]]), three("grid"), three("block"),
        whole("device__attribute_device_index") if device is None else device,
        str(card) if card else None,
    )


def rule_of(rule: Mapping[str, Any]) -> Advice | None:
    """One of ncu_report's rule results; None for one that says nothing."""
    message, estimate = rule.get("rule_message") or {}, rule.get("speedup_estimation") or {}
    return make_advice(rule.get("rule_identifier", ""), message.get("type"), message.get("message", ""),
                       estimate.get("speedup"), estimate.get("type"))


def make_advice(rule: str, kind: str | int | None, text: str, speedup: float | None, scope: Any) -> Advice | None:
    """A rule's message; None for an error of the rule itself, which says nothing of the kernel."""
    if kind not in _KINDS or not text:
        return None
    plain = re.sub(r"@url:([^:@]*):([^@]*)@", r"\1 (\2)", text)
    plain = re.sub(r"@(?:section|source|metric)[^@]*?:([^:@]*)@", r"\1", plain)
    known = speedup if speedup is not None and math.isfinite(speedup) else None
    return Advice(kernel_names.cut(rule, 60), _KINDS[kind], kernel_names.cut(plain, TEXT_LIMIT), known,
                  _SCOPES.get(scope) if known is not None else None)


def advice(found: Iterable[Advice | None]) -> tuple[Advice, ...]:
    """What to do first: rules with an estimate by its size, then the others, notes last."""
    order = {"opt": 0, "warning": 1, "note": 2}
    kept = [one for one in found if one is not None]
    return tuple(sorted(kept, key=lambda one: (order[one.kind], -(one.estimated_speedup_pct or 0.0))))


def findings(launches: Sequence[Measured], form: str, warnings: Sequence[str] = ()) -> Findings:
    """A report's launches, each a row of its own: two launches of a kernel have counters of their own."""
    rows = rank(row(one) for one in launches)
    lacking = sum(one.device_time_us is None for one in rows)
    said = [*warnings, *([NO_DURATION.format(count=lacking)] if lacking else [])]
    return Findings(
        "ncu", form, rows, devices=_devices(launches, rows), processes=_processes(launches, rows),
        reason=None if rows else "no launch in this report", warnings=tuple(said),
    )


def row(one: Measured) -> KernelRow:
    """The row of one launch."""
    known = _known(one.values)
    metrics = _metrics(known)
    duration = known.get("duration_s")
    shared = [known[name] for name in ("static_smem_per_block", "dynamic_smem_per_block") if name in known]
    return KernelRow(
        name=one.name, short_name="", calls=1,
        device_time_us=None if duration is None else exact(duration * 1e6),
        grid=one.grid or _size(known.get("grid_size")), block=one.block or _size(known.get("block_size")),
        registers_per_thread=int(known["registers_per_thread"]) if "registers_per_thread" in known else None,
        shared_bytes=int(sum(shared)) if len(shared) == 2 else None,
        devices=() if one.device is None else (one.device,), processes=() if one.process is None else (one.process,),
        launch=one.launch, metrics=metrics, advice=one.advice, bound_hint=bound_hint(metrics),
    )


def _metrics(known: Mapping[str, float]) -> NcuMetrics:
    fields: dict[str, Any] = {
        field.name: (int(known[field.name]) if field.name in _WHOLE else known[field.name])
        for field in dataclasses.fields(NcuMetrics)
        if field.name in known
    }
    for name in ("sm_frequency", "dram_frequency"):
        if f"{name}_hz" in known:
            fields[f"{name}_mhz"] = known[f"{name}_hz"] / 1e6
    return NcuMetrics(**fields)


def bound_hint(metrics: NcuMetrics) -> str | None:
    """memory or compute when DRAM or the SMs reach 60 % of their peak, memory too when a cache does, else latency.

    None where one of the two is unknown: the other alone does not tell.
    """
    dram, sm = metrics.dram_throughput_pct, metrics.sm_throughput_pct
    if dram is None or sm is None:
        return None
    if max(dram, sm) >= _BOUND_PCT:
        return "memory" if dram >= sm else "compute"
    return "memory" if (metrics.memory_throughput_pct or 0.0) >= _BOUND_PCT else "latency"


def _known(values: Iterable[tuple[str, str, float]]) -> dict[str, float]:
    """Values in base units by our names; the counter's own name wins over the page's, which is rounded."""
    based: dict[tuple[str, str | None], float] = {}
    for name, unit, value in values:
        if math.isfinite(value):
            number, base = tables.to_base(value, unit)
            based.setdefault((name, None), number)
            based.setdefault((name, base), number)
    return {
        ours: next(based[name] for name in names if name in based)
        for ours, names in _NAMES.items()
        if any(name in based for name in names)
    }


def _size(total: float | None) -> tuple[int, ...] | None:
    return None if total is None else (int(total),)


def _devices(launches: Sequence[Measured], rows: Sequence[KernelRow]) -> tuple[DeviceTime, ...]:
    names = {one.device: one.device_name for one in launches if one.device is not None}
    return tuple(
        DeviceTime(device, kernel_names.cut(names[device] or "") or None, *_share(rows, "devices", device),
                   None, None, None)
        for device in sorted(names)
    )


def _processes(launches: Sequence[Measured], rows: Sequence[KernelRow]) -> tuple[ProcessTime, ...]:
    names = {one.process: one.process_name for one in launches if one.process is not None}
    return tuple(
        ProcessTime(pid, kernel_names.cut(names[pid] or "") or None, *_share(rows, "processes", pid))
        for pid in sorted(names)
    )


def _share(rows: Sequence[KernelRow], where: str, number: int) -> tuple[int, float | None]:
    mine = [row for row in rows if number in getattr(row, where)]
    return len(mine), total_us(mine)
