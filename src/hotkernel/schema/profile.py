"""The nouns of a profile: one kernel's row, whatever program said it, and the answers made of such rows."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Advice:
    """One thing that ncu's own rules say of a launch; the estimate is ncu's, and of nobody else."""

    rule: str
    kind: str  # opt, warning or note
    text: str
    estimated_speedup_pct: float | None = None
    scope: str | None = None  # global: of the whole kernel; local: of the part the rule looks at


@dataclass(frozen=True)
class NcuMetrics:
    """What ncu's counters say of one launch; null for what was not collected."""

    achieved_occupancy_pct: float | None = None
    theoretical_occupancy_pct: float | None = None
    dram_throughput_pct: float | None = None  # of the card's peak
    memory_throughput_pct: float | None = None  # the busiest of DRAM, L2, L1 and shared memory
    sm_throughput_pct: float | None = None
    l1_throughput_pct: float | None = None
    l2_throughput_pct: float | None = None
    l2_hit_pct: float | None = None
    dram_bytes_per_s: float | None = None
    dram_read_bytes: float | None = None
    dram_write_bytes: float | None = None
    static_smem_per_block: int | None = None  # bytes
    dynamic_smem_per_block: int | None = None  # bytes
    spill_requests: int | None = None  # local-memory requests that exist because registers ran out
    spill_share_pct: float | None = None  # of all requests to local memory
    stack_bytes: int | None = None  # per thread
    waves_per_sm: float | None = None
    sm_frequency_mhz: float | None = None
    dram_frequency_mhz: float | None = None


@dataclass(frozen=True)
class KernelRow:
    """A kernel with all its calls (nsys, torch.profiler), or one launch of it (ncu)."""

    name: str  # as the program gave it, control characters stripped, cut at 200
    short_name: str  # for show; shared only where the report itself cut the names alike
    calls: int
    device_time_us: float | None  # over all calls; null where the report holds no time
    pct: float | None = None  # of the kernels' time alone, copies and gaps apart
    avg_us: float | None = None
    min_us: float | None = None
    max_us: float | None = None
    grid: tuple[int, ...] | None = None  # where all calls agree; one number where only the product is known
    block: tuple[int, ...] | None = None
    registers_per_thread: int | None = None
    shared_bytes: int | None = None  # static and dynamic, per block
    devices: tuple[int, ...] = ()
    processes: tuple[int, ...] = ()
    graph_calls: int | None = None  # calls that came out of a CUDA graph
    launch: int | None = None  # ncu's number of the launch
    metrics: NcuMetrics | None = None
    advice: tuple[Advice, ...] = ()
    bound_hint: str | None = None  # memory, compute or latency
    total_ns: float | None = field(default=None)  # device_time_us under the name older callers know
    time_pct: float | None = field(default=None)  # pct, likewise
    duration_us: float | None = field(default=None)  # avg_us, likewise

    def __post_init__(self) -> None:
        if self.calls < 1:
            raise ValueError(f"a kernel row with {self.calls} calls")
        if self.device_time_us is not None and not self.device_time_us >= 0:
            raise ValueError(f"a kernel row with a time of {self.device_time_us} us")
        known = self.device_time_us
        object.__setattr__(self, "avg_us", None if known is None else known / self.calls)
        object.__setattr__(self, "total_ns", None if known is None else round(known * 1000, 3))
        object.__setattr__(self, "time_pct", self.pct)
        object.__setattr__(self, "duration_us", self.avg_us)


@dataclass(frozen=True)
class CopyRow:
    """Copies or fills of one kind; not kernels, and not in the kernels' shares."""

    name: str
    calls: int
    device_time_us: float
    moved_bytes: int | None = None


@dataclass(frozen=True)
class OpRow:
    """A PyTorch operator with one set of input shapes; its time contains the operators it calls."""

    name: str
    input_shapes: tuple[str, ...]
    calls: int
    cpu_time_us: float
    device_time_us: float | None  # of the kernels launched while it ran; null where no GPU took part
    avg_us: float  # of device time where there is any, else of CPU time
    pct: float | None  # of the kernels' time, else of the CPU time of the outermost operators


@dataclass(frozen=True)
class DeviceTime:
    """One GPU's part: what its kernels took, and how much of its own window it idled."""

    device: int
    name: str | None
    launches: int
    kernel_us: float | None  # null where the report holds no time
    busy_us: float | None  # union of kernels, copies and fills: concurrent work counts once
    window_us: float | None  # from its first work to the end of its last
    idle_pct: float | None


@dataclass(frozen=True)
class ProcessTime:
    """One process's part of a report."""

    pid: int
    name: str | None
    launches: int
    kernel_us: float | None  # null where the report holds no time


@dataclass(frozen=True)
class TopKernels:
    """The heaviest kernels of a saved report."""

    tool: str  # nsys, ncu or torch: what wrote the report
    form: str  # sqlite, csv, text, ncu-rep, trace …
    report: str
    kernels: tuple[KernelRow, ...]
    n_kernels_total: int  # rows before the cut
    n_launches: int
    total_gpu_time_ns: float | None  # of kernels; null where no row has a time
    reason: str | None = None  # why there is no kernel, where there is none
    gpu_idle_pct: float | None = None
    copies: tuple[CopyRow, ...] = ()
    devices: tuple[DeviceTime, ...] = ()
    processes: tuple[ProcessTime, ...] = ()
    truncated: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class ProfileRun:
    """One command under nsys or ncu: where the report lies, and what it says."""

    tool: str
    report: str
    top: tuple[KernelRow, ...]
    n_kernels_total: int
    n_launches: int
    total_gpu_time_ns: float | None
    scope: str  # whose launches were captured
    cmd: list[str]  # exactly what ran
    program: str
    program_version: str | None
    profile_wall_s: float
    script_exit_code: int
    note: str
    sqlite: str | None = None  # nsys: what the rows were read from
    waited_for_gpu_s: float | None = None  # until another hotkernel was done with the card
    reason: str | None = None  # why there is no kernel, where there is none
    gpu_idle_pct: float | None = None
    copies: tuple[CopyRow, ...] = ()
    devices: tuple[DeviceTime, ...] = ()
    processes: tuple[ProcessTime, ...] = ()
    truncated: bool = False
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class TraceRun:
    """One script under torch.profiler: kernels by device time and, apart from them, operators."""

    kernels: tuple[KernelRow, ...]
    ops: tuple[OpRow, ...]
    n_kernels: int  # different kernels, before the cut
    n_launches: int
    total_kernel_time_us: float | None
    scope: str
    device: str  # cuda or cpu: what the shares are of
    gpu_idle_pct: float | None
    copies: tuple[CopyRow, ...]
    devices: tuple[DeviceTime, ...]
    cmd: list[str]
    wall_s: float
    script_exit_code: int
    torch: str | None
    ops_note: str
    reason: str | None = None  # why there is no kernel, where there is none
    waited_for_gpu_s: float | None = None  # until another hotkernel was done with the card
    n_ops: int = 0  # rows before the cut
    truncated: bool = False
    warnings: tuple[str, ...] = ()
