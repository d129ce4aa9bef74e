"""The nouns of the roof: what a card should reach by its data sheet, what it does reach, what a kernel may hope for."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field

CALIBRATION_SCHEMA = 1  # raised when a saved calibration changes its meaning
VALID_DAYS = 30
DTYPES = ("bf16", "fp16", "fp8", "fp32", "tf32", "fp64", "int8", "fp4")


class Bound(enum.StrEnum):
    """Which roof stands over a kernel."""

    MEMORY = "memory"
    COMPUTE = "compute"


@dataclass(frozen=True)
class Figure:
    """A number from a document, or worked out from such numbers; its source says which."""

    value: float
    source: str
    note: str = ""

    def __post_init__(self) -> None:
        if not self.source or not 0 < self.value < math.inf:
            raise ValueError(f"a figure of {self.value} with source={self.source!r}")


@dataclass(frozen=True)
class GpuSpec:
    """A card by its data sheet; a figure that nobody could source is null or missing."""

    key: str  # rtx5090, h100sxm; empty for a card that is not in the table
    name: str
    compute_capability: str | None
    tflops: dict[str, Figure] = field(default_factory=dict)  # by dtype, dense; int8 in TOPS
    bandwidth_gbps: Figure | None = None
    memory_gb: Figure | None = None
    l2_bytes: Figure | None = None
    shared_per_block_bytes: Figure | None = None
    power_w: Figure | None = None
    sm_count: Figure | None = None
    boost_mhz: Figure | None = None
    shares_host_memory: bool = False
    worked_out: bool = False  # true: not in the table, everything follows from the card's own properties
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class BandwidthPoint:
    """What one operation reached at one size, reads and writes counted together."""

    moved_bytes: int
    gbps: float

    def __post_init__(self) -> None:
        if self.moved_bytes <= 0 or not 0 < self.gbps < math.inf:
            raise ValueError(f"{self.gbps} GB/s over {self.moved_bytes} bytes")


@dataclass(frozen=True)
class MatrixRate:
    """Matrix multiplication in one dtype: at first, and once the power limit has its say."""

    burst_tflops: float
    sustained_tflops: float | None = None


@dataclass(frozen=True)
class Calibration:
    """What one card really reaches under the product's own timer, at one driver and power limit."""

    gpu: str
    gpu_uuid: str
    driver: str
    power_limit_w: float | None  # null where the driver gives no limit
    made_at: str  # ISO 8601, UTC
    curves: dict[str, tuple[BandwidthPoint, ...]]  # by operation: read, write, copy, triad; sizes rising
    error_pct: float  # the calibration's own error, of any of its bandwidths
    matrix: dict[str, MatrixRate] = field(default_factory=dict)  # by dtype
    launch_gap_us: float | None = None
    event_us: float | None = None
    l2_copy_gbps: float | None = None
    aa_noise_pct: float | None = None
    quick: bool = False
    protocol: int | None = None
    warnings: tuple[str, ...] = ()
    schema: int = CALIBRATION_SCHEMA

    def __post_init__(self) -> None:
        if not 0 <= self.error_pct < 100 or not any(self.curves.values()):
            raise ValueError(f"a calibration with error_pct={self.error_pct} and curves of {sorted(self.curves)}")


@dataclass(frozen=True)
class MeasuredPeaks:
    """The measured roofs that hold for one kernel, and where they come from."""

    bandwidth_gbps: float | None
    tflops: float | None
    source: str


@dataclass(frozen=True)
class Roofline:
    """Where a kernel of these flops and bytes stands under a card's roofs; without them, the roofs alone."""

    gpu: str
    key: str
    dtype: str
    flops: float | None
    bytes: float | None
    intensity_flop_per_byte: float | None
    ridge_flop_per_byte: float | None  # above it, compute is the roof
    bound: Bound | None
    attainable_tflops: float | None
    attainable_ms: float | None  # by the data sheet
    attainable_ms_measured: float | None  # by what this card reaches
    ridge_flop_per_byte_measured: float | None
    peak_tflops: float | None
    peak_bandwidth_gbps: float | None
    measured_tflops: float | None
    measured_bandwidth_gbps: float | None
    sources: dict[str, str] = field(default_factory=dict)  # of every peak above, by its name
    worked_out: bool = False
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CardPeaks:
    """A card's data-sheet peaks at a glance; `roofline` gives each with its source."""

    key: str
    name: str
    worked_out: bool
    tflops: dict[str, float]
    bandwidth_gbps: float | None
    l2_bytes: float | None
    shared_per_block_bytes: float | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class CalibrationSummary:
    """A calibration at a glance: the highest point of each curve, and the rates."""

    made_at: str
    quick: bool
    error_pct: float
    highest_gbps: dict[str, float]  # by operation
    burst_tflops: dict[str, float]  # by dtype
    sustained_tflops: dict[str, float]
    launch_gap_us: float | None
    l2_copy_gbps: float | None
    aa_noise_pct: float | None


@dataclass(frozen=True)
class PlottedKernel:
    """One kernel on the plot: its work, and the time it took."""

    name: str
    flops: float
    bytes: float
    ms: float

    def __post_init__(self) -> None:
        if not all(0 < number < math.inf for number in (self.flops, self.bytes, self.ms)):
            raise ValueError(f"{self.name}: flops, bytes and ms must be above 0")


@dataclass(frozen=True)
class Picture:
    """A picture that was written: where, how large, and what it shows."""

    path: str
    bytes: int
    media_type: str  # image/png or image/svg+xml
    gpu: str
    dtype: str
    kernels: tuple[str, ...]  # those on it
    notes: tuple[str, ...] = ()
