"""One launch out of a report of Nsight Compute with its instructions, read by ncu_reader in a process of its own."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.machine import reports
from hotkernel.machine.process import Job
from hotkernel.schema.explanation import ProfiledKernel, SampledInstruction
from hotkernel.schema.plain import from_plain

LAUNCHES_LIMIT = 5000
_DURATION = "gpu__time_duration.sum"
_DEVICE = "device__attribute_display_name"
_SHAPES = {of: tuple(f"launch__{of}_dim_{axis}" for axis in "xyz") for of in ("block", "grid")}
# Reports hold base units; these are what older ones scaled to.
_SCALE = {"us": 1e3, "usecond": 1e3, "ms": 1e6, "msecond": 1e6, "s": 1e9, "second": 1e9, "Kbyte": 1e3, "Mbyte": 1e6,
          "Gbyte": 1e9, "Kbyte/s": 1e3, "Mbyte/s": 1e6, "Gbyte/s": 1e9, "Tbyte/s": 1e12, "Mhz": 1e6, "Ghz": 1e9}


@dataclass(frozen=True)
class Launch:
    """One kernel launch of a report; a duration that ncu could not measure is null."""

    number: int
    name: str
    duration_us: float | None


@dataclass(frozen=True)
class SourceReport:
    """A report that was seen to be one, and its launches."""

    path: Path
    launches: tuple[Launch, ...]
    job: Job

    @classmethod
    def open(cls, job: Job, path: Path) -> SourceReport:
        """Raises ToolError when ncu_report is missing, or the file is no whole report, or holds no launch."""
        if not reports.has_ncu_report():
            raise ToolError("explain reads .ncu-rep files with NVIDIA's ncu-report, which is not installed",
                            fix="pip install ncu-report in the environment that hotkernel runs in (uvx --with "
                            "ncu-report hotkernel); it needs no Nsight and no GPU")
        listed = reports.ncu_actions(job, path, (_DURATION,))[:LAUNCHES_LIMIT]
        launches = tuple(Launch(at, str(each["function"]), _microseconds(each["metrics"]))
                         for at, each in enumerate(listed))
        return cls(path, launches, job)

    def kernel(self, launch: Launch, metrics: Collection[str]) -> ProfiledKernel:
        """One launch with those of `metrics` that the report has, and its instructions with their counters."""
        wanted = (*sorted(metrics), _DEVICE, *(name for names in _SHAPES.values() for name in names))
        read = reports.ncu_launch(self.job, self.path, launch.number, wanted)
        found = read["metrics"]
        device = found.get(_DEVICE, (None,))[0]
        return ProfiledKernel(
            name=launch.name,
            device=device if isinstance(device, str) and device else None,
            metrics={name: value for name in metrics if (value := _value(found, name)) is not None},
            instructions=_instructions(read["instructions"]),
            sources=read["sources"],
            block=_dimensions(found, "block"),
            grid=_dimensions(found, "grid"),
        )


def _instructions(read: list[dict[str, Any]]) -> tuple[SampledInstruction, ...]:
    first = read[0]["address"] if read else 0
    return tuple(from_plain(SampledInstruction,
                            {**each, "address": each["address"] - first, "sass": _sass(each["sass"])}) for each in read)


def _sass(text: str) -> str:
    """The instruction's text; a branch also names the absolute address of its run, which means nothing to a reader."""
    return re.sub(r"\) 0x[0-9a-f]{8,}$", ")", " ".join(text.split()))


def _value(found: Mapping[str, Any], name: str) -> float | None:
    value, unit = found.get(name, (None, ""))
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value) * _SCALE.get(unit, 1.0)


def _microseconds(found: Mapping[str, Any]) -> float | None:
    nanoseconds = _value(found, _DURATION)
    return None if nanoseconds is None else nanoseconds / 1000


def _dimensions(found: Mapping[str, Any], of: str) -> str | None:
    sizes = [_value(found, name) for name in _SHAPES[of]]
    return "x".join(str(int(size)) for size in sizes if size is not None) if None not in sizes else None
