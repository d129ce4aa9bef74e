"""Reads one launch out of a report of Nsight Compute through NVIDIA's ncu_report, which needs no Nsight and no GPU."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.schema.explanation import ProfiledKernel, SampledInstruction, SourcePlace

LAUNCHES_LIMIT = 5000
SOURCE_LIMIT = 2_000_000  # characters of one imported source file
_MAGIC = b"NVR\0"
_DURATION = "gpu__time_duration.sum"
_SAMPLES = "smsp__pcsamp_sample_count"
_EXECUTED = "inst_executed"
_STALL = "smsp__pcsamp_warps_issue_stalled_"
# Counters of one instruction beside its samples, under our names.
_COUNTERS = {
    "threads": "thread_inst_executed",
    "sectors": "memory_l2_theoretical_sectors_global",
    "ideal_sectors": "memory_l2_theoretical_sectors_global_ideal",
    "wavefronts": "memory_l1_wavefronts_shared",
    "ideal_wavefronts": "memory_l1_wavefronts_shared_ideal",
}
# Reports hold base units; these are what older ones scaled to.
_SCALE = {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9, "Kbyte": 1e3, "Mbyte": 1e6,
          "Gbyte": 1e9, "Kbyte/s": 1e3, "Mbyte/s": 1e6, "Gbyte/s": 1e9, "Tbyte/s": 1e12, "Mhz": 1e6, "Ghz": 1e9}


@dataclass(frozen=True)
class Launch:
    """One kernel launch of a report; a duration that ncu could not measure is null."""

    name: str
    duration_us: float | None
    action: Any  # ncu_report's own object; lives as long as the report


@dataclass(frozen=True)
class SourceReport:
    """An open report."""

    path: Path
    launches: tuple[Launch, ...]
    context: Any  # ncu_report frees the actions with it

    @classmethod
    def open(cls, path: Path) -> SourceReport:
        """Raises ToolError when ncu_report is missing, or the file is no whole report, or holds no launch."""
        try:
            import ncu_report  # type: ignore[import-untyped, import-not-found, unused-ignore]
        except ImportError:
            raise ToolError("explain reads .ncu-rep files with NVIDIA's ncu-report, which is not installed",
                            fix="pip install ncu-report in the environment that hotkernel runs in (uvx --with "
                            "ncu-report hotkernel); it needs no Nsight and no GPU") from None
        with path.open("rb") as file:
            if file.read(4) != _MAGIC:  # ncu_report would take it for a report without launches
                raise ToolError(f"{path.name} is not a report of Nsight Compute",
                                fix="give the .ncu-rep that profile(tool=ncu) or `ncu -o` wrote")
        context = ncu_report.load_report(str(path))
        actions = [action for each in context for action in each]
        if not actions:
            raise ToolError(f"{path.name} holds no launch", fix="it is cut off, or ncu captured nothing: profile again")
        if any(action.name() is None for action in actions[:LAUNCHES_LIMIT]):
            raise ToolError(f"{path.name} is damaged: a launch in it has no name", fix="copy or profile it again")
        launches = tuple(Launch(action.name(), _microseconds(action), action) for action in actions[:LAUNCHES_LIMIT])
        return cls(path, launches, context)

    def kernel(self, launch: Launch, metrics: Collection[str]) -> ProfiledKernel:
        """One launch with those of `metrics` that the report has, and its instructions with their counters."""
        action = launch.action
        values = {name: value for name in metrics if (value := _value(action, name)) is not None}
        sources = {name: text[:SOURCE_LIMIT] for name, text in action.source_files().items() if text}
        return ProfiledKernel(
            name=launch.name,
            device=_text(action, "device__attribute_display_name"),
            metrics=values,
            instructions=_instructions(action),
            sources=sources,
            block=_dimensions(action, "block"),
            grid=_dimensions(action, "grid"),
        )


def _instructions(action: Any) -> tuple[SampledInstruction, ...]:
    executed, samples = _per_instruction(action, _EXECUTED), _per_instruction(action, _SAMPLES)
    addresses = sorted({*executed, *samples})
    if not addresses:
        return ()
    reasons = [name for name in action.metric_names() if name.startswith(_STALL) and not name.endswith("_not_issued")]
    stalls = {name.removeprefix(_STALL): _per_instruction(action, name) for name in reasons}
    counters = {field: _per_instruction(action, name) for field, name in _COUNTERS.items()}
    found = []
    for address in addresses:
        counted = {field: counts.get(address) for field, counts in counters.items()}
        found.append(SampledInstruction(
            address=address - addresses[0],
            sass=_sass(action, address),
            place=_place(action, address),
            executed=executed.get(address),
            samples=samples.get(address, 0) if samples else None,
            stalls={reason: counts[address] for reason, counts in stalls.items() if counts.get(address)},
            **counted,
        ))
    return tuple(found)


def _sass(action: Any, address: int) -> str:
    """The instruction's text; a branch also names the absolute address of its run, which means nothing to a reader."""
    return re.sub(r"\) 0x[0-9a-f]{8,}$", ")", " ".join((action.sass_by_pc(address) or "").split()))


def _per_instruction(action: Any, name: str) -> Mapping[int, int]:
    """A metric's value at each instruction's address; empty where the report has it for the whole launch only."""
    metric = action.metric_by_name(name)
    if metric is None or not metric.has_correlation_ids():
        return {}
    addresses = metric.correlation_ids()
    if addresses.num_instances() != metric.num_instances():
        return {}
    return {addresses.as_uint64(at): int(metric.as_double(at)) for at in range(metric.num_instances())}


def _place(action: Any, address: int) -> SourcePlace | None:
    known = action.source_info(address)
    return SourcePlace(known.file_name(), known.line()) if known and known.file_name() else None


def _value(action: Any, name: str) -> float | None:
    metric = action.metric_by_name(name)
    if metric is None or not metric.has_value():
        return None
    value = metric.value()
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value) * _SCALE.get(metric.unit(), 1.0)


def _text(action: Any, name: str) -> str | None:
    metric = action.metric_by_name(name)
    value = metric.value() if metric is not None and metric.has_value() else None
    return value if isinstance(value, str) and value else None


def _microseconds(action: Any) -> float | None:
    nanoseconds = _value(action, _DURATION)
    return None if nanoseconds is None else nanoseconds / 1000


def _dimensions(action: Any, of: str) -> str | None:
    sizes = [_value(action, f"launch__{of}_dim_{axis}") for axis in "xyz"]
    return "x".join(str(int(size)) for size in sizes if size is not None) if None not in sizes else None
