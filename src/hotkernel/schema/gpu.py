"""The nouns of a card: what it is, how it is at one moment, and the words for why its clocks are held back."""

from __future__ import annotations

from dataclasses import dataclass

from hotkernel.schema.roofline import CalibrationSummary, CardPeaks

# NVML's clocks-event reasons (older drivers: throttle reasons), nvml.h of driver 580.
THROTTLE_WORDS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
SLOWDOWN_MASK = 0x008 | 0x020 | 0x040 | 0x080  # hardware, thermal, power brake: a time taken under these is void
POWER_CAP_MASK = 0x004  # steady state on a busy card: flagged, never dropped


def throttle_words(mask: int | None) -> tuple[str, ...] | None:
    """The reasons in `mask` as words, lowest bit first; a bit without a word appears as its number."""
    if mask is None:
        return None
    bits = [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
    return tuple(THROTTLE_WORDS.get(bit, f"0x{bit:x}") for bit in bits)


@dataclass(frozen=True)
class GpuProcess:
    """Somebody's process on the card; a name or memory that the driver withholds is null."""

    pid: int  # as the driver numbers processes, which a container may not
    name: str | None
    memory_mib: int | None


@dataclass(frozen=True)
class Foreign:
    """Who else computes on the card: how many, and which where the driver numbers processes as we do."""

    count: int | None  # null: unknown
    processes: tuple[GpuProcess, ...] | None  # null: unknown, or known by number only
    warning: str | None = None


@dataclass(frozen=True)
class GpuState:
    """The card at one moment; null for what the driver does not say."""

    sm_clock_mhz: int | None
    memory_clock_mhz: int | None
    temperature_c: int | None
    power_w: float | None
    throttle_reasons: tuple[str, ...] | None
    throttle_mask: int | None
    utilization_pct: int | None
    processes: tuple[GpuProcess, ...] | None  # those that compute, ours included
    memory_used_mib: int | None = None
    power_limit_w: float | None = None

    @property
    def is_slowed(self) -> bool | None:
        """Whether a time taken now would be void; None where the driver gives no reasons."""
        return None if self.throttle_mask is None else bool(self.throttle_mask & SLOWDOWN_MASK)


@dataclass(frozen=True)
class MigDevice:
    """One slice of a card in MIG mode: its own memory and multiprocessors, not the card's."""

    uuid: str | None
    name: str | None
    memory_total_mib: int | None
    sm_count: int | None


@dataclass(frozen=True)
class Gpu:
    """One card: what it is and how it is now; null for what the driver does not say."""

    index: int  # NVML's: by PCI bus, all cards of the machine
    name: str | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None
    driver: str | None = None
    memory_total_mib: int | None = None
    power_limit_w: float | None = None  # what is enforced now
    power_limit_default_w: float | None = None
    compute_capability: str | None = None  # "9.0"
    cuda_cores: int | None = None
    sm_count: int | None = None
    memory_bus_bits: int | None = None
    max_sm_clock_mhz: int | None = None
    max_memory_clock_mhz: int | None = None
    mig: bool | None = None
    mig_devices: tuple[MigDevice, ...] = ()
    ecc: bool | None = None
    graphics_processes: int | None = None  # a desktop draws on this card
    state: GpuState | None = None  # null when the card cannot be reached
    board: str | None = None  # the computer's own name, where the GPU is part of it (Jetson)
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class GpuList:
    """Every card the driver knows, or none and the reason."""

    gpus: tuple[Gpu, ...]
    reason: str | None = None  # why the list is empty
    fix: str | None = None
    driver: str | None = None
    cuda_version: str | None = None  # the newest CUDA this driver serves, "13.0"

    def __post_init__(self) -> None:
        if bool(self.gpus) == (self.reason is not None):
            raise ValueError(f"{len(self.gpus)} cards and reason={self.reason!r} contradict each other")


@dataclass(frozen=True)
class GpuReport(Gpu):
    """A card with what is known of its roofs."""

    visible: bool = True  # false: CUDA_VISIBLE_DEVICES hides it
    peaks: CardPeaks | None = None
    calibration: CalibrationSummary | None = None
    calibration_note: str | None = None  # why there is none


@dataclass(frozen=True)
class GpuInfo:
    """The cards of this machine, or none and the reason."""

    gpus: tuple[GpuReport, ...]
    reason: str | None
    fix: str | None
    driver: str | None
    cuda_version: str | None  # the newest CUDA this driver serves
    platform: str
    wsl: bool
    warnings: tuple[str, ...] = ()
