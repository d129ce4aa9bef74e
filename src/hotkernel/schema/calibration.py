"""The nouns of calibrate: what is to be measured, the readings as they come, and what the tool answers."""

from __future__ import annotations

from dataclasses import dataclass, field

SCHEMA = 1


@dataclass(frozen=True)
class CalibrationPlan:
    """What the script in the user's Python measures; sizes are shares of the card's L2, which only it knows for sure."""

    l2_multiples: tuple[float, ...]  # bytes moved by one call, from memory
    l2_fractions: tuple[float, ...]  # bytes moved by one call, within the L2
    values: int  # of each kernel at each size
    matrix: tuple[str, ...]  # dtypes
    matrix_sizes: tuple[int, ...]
    sustained_s: float
    noise_pairs: int  # pairs of fresh processes
    noise_values: int  # of each side and kernel in a pair
    warm_s: float = 1.0
    memory_share: float = 0.4  # of what is free
    device: str = "cuda"
    l2_bytes: int | None = None  # null: the card's own word

    def __post_init__(self) -> None:
        if list(self.l2_multiples) != sorted(set(self.l2_multiples)) or not self.l2_multiples or self.values < 3:
            raise ValueError(f"a plan with l2_multiples={self.l2_multiples} and {self.values} values")


@dataclass(frozen=True)
class Reading:
    """One kernel at one size: every value, in the order measured."""

    operation: str  # read, write, copy, triad
    kernel: str  # torch or triton
    moved_bytes: int  # reads and writes of one call together
    us: tuple[float, ...]


@dataclass(frozen=True)
class MatrixReading:
    """Square matrix multiplication in one dtype at one size: a few calls from rest, and seconds on end."""

    dtype: str
    size: int
    burst_us: tuple[float, ...]
    sustained_us: tuple[float, ...] = ()


@dataclass(frozen=True)
class LaunchReading:
    """Calls that do nothing: what one costs on the device and on the host, and what an event adds."""

    gap_us: tuple[float, ...]
    with_event_us: tuple[float, ...]
    host_us: tuple[float, ...]


@dataclass(frozen=True)
class NoiseReading:
    """One stock kernel in pairs of fresh processes that run the same code: pair, side, value."""

    kernel: str
    pairs: tuple[tuple[tuple[float, ...], ...], ...]


@dataclass(frozen=True)
class Readings:
    """Everything the script found; an empty part was not measured, and `refused` says why."""

    device: str
    gpu: str | None = None
    uuid: str | None = None
    l2_bytes: int | None = None
    torch: str | None = None
    triton: str | None = None
    error: str | None = None
    stage: str = ""
    bandwidth: tuple[Reading, ...] = ()
    l2_copy: tuple[Reading, ...] = ()
    launch: LaunchReading | None = None
    matrix: tuple[MatrixReading, ...] = ()
    noise: tuple[NoiseReading, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class CurvePoint:
    """What one operation reached at one size, by the better of its kernels."""

    operation: str
    moved_bytes: int
    gbps: float
    spread_pct: float  # standard deviation of one value, robust
    sheet_pct: float | None  # of the data sheet's bandwidth; null where no sheet gives one
    kernel: str
    values: int


@dataclass(frozen=True)
class MatrixRow:
    """What matrix multiplication reached in one dtype, at the best of the sizes tried."""

    dtype: str
    burst_tflops: float
    sustained_tflops: float | None
    spread_pct: float
    sheet_pct: float | None  # of the burst
    size: int


@dataclass(frozen=True)
class NoiseRow:
    """How far two equal, fresh processes lie apart on one stock kernel."""

    kernel: str
    noise_pct: float  # root mean square of the pairs' differences
    within_pct: float  # standard deviation of one value inside a process
    pairs: int
    us: float


@dataclass(frozen=True)
class CalibrationResult:
    """What this card really reaches, and where that is kept; `saved` is false when it is not to be believed."""

    gpu: str
    gpu_uuid: str
    driver: str
    power_limit_w: float | None
    made_at: str
    quick: bool
    saved: bool
    path: str | None
    reason: str | None  # why it was not saved
    valid_days: int
    error_pct: float  # of any bandwidth here, as the next process would read it
    highest_gbps: dict[str, float]  # by operation
    l2_copy_gbps: float | None
    launch_gap_us: float | None  # from one empty kernel to the next on the device, the empty kernel included
    host_launch_us: float | None  # what the host needs to queue one
    event_us: float | None  # what recording an event adds on the device
    aa_noise_pct: float | None  # standard deviation between two equal, fresh processes, over the stock kernels
    bandwidth: tuple[CurvePoint, ...] = ()
    matrix: tuple[MatrixRow, ...] = ()
    noise: tuple[NoiseRow, ...] = ()
    clock_mhz: tuple[int, ...] = ()  # lowest and highest SM clock seen
    throttle_reasons: tuple[str, ...] = ()
    versions: dict[str, str | None] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    waited_for_gpu_s: float | None = None
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        if self.saved == (self.reason is not None) or self.saved != (self.path is not None):
            raise ValueError(f"a calibration with saved={self.saved}, path={self.path!r} and reason={self.reason!r}")
