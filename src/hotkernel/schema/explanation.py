"""The nouns of one kernel's profile: what a report of Nsight Compute holds, and what `explain` answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from hotkernel.schema.disassembly import Finding


@dataclass(frozen=True)
class SourcePlace:
    """A line of the user's source, as the line information has it."""

    file: str
    line: int


@dataclass(frozen=True)
class SampledInstruction:
    """One instruction of a profiled kernel with its counters; null for a counter that the report lacks."""

    address: int  # from the kernel's first instruction
    sass: str
    place: SourcePlace | None
    executed: int | None
    threads: int | None  # threads that executed it, summed
    samples: int | None
    stalls: dict[str, int]  # samples by reason
    sectors: int | None = None  # L2 sectors of global accesses: asked for, and the fewest possible
    ideal_sectors: int | None = None
    wavefronts: int | None = None  # shared memory: needed, and the fewest possible
    ideal_wavefronts: int | None = None


@dataclass(frozen=True)
class ProfiledKernel:
    """One launch in a report of Nsight Compute; `metrics` by ncu's own names, in ncu's base units."""

    name: str
    device: str | None
    metrics: dict[str, float]
    instructions: tuple[SampledInstruction, ...]
    sources: dict[str, str] = field(default_factory=dict)  # the imported source files' text
    block: str | None = None
    grid: str | None = None


@dataclass(frozen=True)
class ProfileFigures:
    """A launch in figures; null for what the report does not hold."""

    duration_us: float | None = None
    dram_read_bytes: float | None = None
    dram_write_bytes: float | None = None
    dram_gbps: float | None = None
    dram_pct: float | None = None
    memory_pct: float | None = None
    sm_pct: float | None = None
    tensor_pct: float | None = None
    l1_hit_pct: float | None = None
    l2_hit_pct: float | None = None
    warp_instructions: float | None = None
    occupancy_pct: float | None = None
    occupancy_limit_pct: float | None = None
    registers: float | None = None
    shared_bytes_a_block: float | None = None
    local_load_instructions: float | None = None
    local_store_instructions: float | None = None
    sm_clock_mhz: float | None = None


@dataclass(frozen=True)
class StallShare:
    """Why warps stood still, in samples; the share is of the samples it was taken from."""

    reason: str
    samples: int
    share_pct: float


@dataclass(frozen=True)
class HotInstruction:
    """One instruction of a hot line; `waits_for` names the load whose result it needs, where the code shows it."""

    address: str
    sass: str
    samples: int
    executed: int | None
    stall: str | None
    waits_for: str | None


@dataclass(frozen=True)
class HotLine:
    """One source line (null without line information), its share of all samples and why its warps wait."""

    file: str | None
    line: int | None
    source: str | None
    samples: int
    share_pct: float
    stalls: tuple[StallShare, ...]
    instructions: tuple[HotInstruction, ...]
    n_instructions: int


@dataclass(frozen=True)
class Change:
    """One figure of two profiles; the change is null where the first is 0 or either is not known."""

    figure: str
    before: float | None
    after: float | None
    change_pct: float | None


@dataclass(frozen=True)
class Difference:
    """What changed from `against` to `report`; `why` is one sentence that a record's note can carry."""

    against: str
    kernel: str
    device: str | None
    speedup: float | None
    why: str
    kernels_before: int  # different kernels in each report, and one launch of each, added up
    kernels_after: int
    one_of_each_before_us: float | None
    one_of_each_after_us: float | None
    changes: tuple[Change, ...]
    stalls: tuple[Change, ...]  # each reason's share of the samples, in percent


@dataclass(frozen=True)
class Explanation:
    """Where a profiled kernel's time goes, and, beside another profile, what changed."""

    report: str
    kernel: str
    device: str | None
    grid: str | None
    block: str | None
    launches: int
    other_kernels: tuple[str, ...]
    findings: tuple[Finding, ...]
    difference: Difference | None
    figures: ProfileFigures
    samples: int | None
    stalls: tuple[StallShare, ...]
    lines: tuple[HotLine, ...]
    n_lines: int
    truncated: bool
    warnings: tuple[str, ...]
    schema_version: int = 1
