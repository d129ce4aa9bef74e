"""The nouns of a card: what it is, and how it is at one moment."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuProcess:
    """Somebody's process on the card; a name or memory that the driver withholds is null."""

    pid: int
    name: str | None
    memory_mib: int | None


@dataclass(frozen=True)
class GpuState:
    """The card at one moment; null for what the driver does not say."""

    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    temperature_c: int | None
    power_w: float | None
    throttle_reasons: tuple[str, ...]
    throttle_mask: int | None
    utilization_pct: int | None
    processes: tuple[GpuProcess, ...] | None
