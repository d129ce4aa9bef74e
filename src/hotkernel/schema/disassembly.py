"""The nouns of machine code: what `disasm` answers."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Finding:
    """One thing that an expert would point at; `rule` is its short name."""

    rule: str
    text: str


@dataclass(frozen=True)
class Share:
    """How many instructions are of one kind."""

    name: str
    count: int
    share_pct: float


@dataclass(frozen=True)
class OpcodeCount:
    """One opcode, modifiers included, and how often it stands in the code."""

    opcode: str
    count: int


@dataclass(frozen=True)
class WidthCount:
    """How many instructions move so many bits for each thread."""

    bits: int
    count: int


@dataclass(frozen=True)
class GlobalAccesses:
    """The widths of a kernel's global loads or stores; empty, with null ends, where there are none."""

    widest_bits: int | None
    narrowest_bits: int | None
    widths: tuple[WidthCount, ...]


@dataclass(frozen=True)
class Loop:
    """A loop's body, once through: every instruction that can run between its head and the branch back."""

    start: str
    end: str
    instructions: int
    depth: int  # 1 is outermost
    inner_loops: int
    kind: str  # work; wait (spins on a barrier); election (one thread is chosen)
    global_loads: int
    global_load_bytes: int | None  # a thread's, once through; null where a bulk copy does not say
    global_stores: int
    shared_accesses: int
    spills: int
    tensor: int
    barriers: int
    mix: tuple[Share, ...]
    source: str | None


@dataclass(frozen=True)
class LineCount:
    """How much code one source line became."""

    file: str
    line: int
    instructions: int
    share_pct: float


@dataclass(frozen=True)
class KernelCode:
    """What one kernel's code says. Counts are of instructions in the file, not of executions."""

    name: str
    arch: str | None
    instructions: int
    registers: int | None
    stack_bytes: int | None
    shared_bytes: int | None  # as the file states it; what a launch adds is not in there
    spill_stores: int | None  # null in PTX, where nothing is spilled yet
    spill_loads: int | None
    spill_store_bytes: int | None
    spill_load_bytes: int | None
    local_array_accesses: int
    register_limited_warps: int | None  # resident warps a multiprocessor, as far as registers go
    max_warps: int | None
    global_loads: GlobalAccesses
    global_stores: GlobalAccesses
    tensor_core: tuple[OpcodeCount, ...]
    bulk_copies: tuple[OpcodeCount, ...]
    barriers: tuple[OpcodeCount, ...]
    mix: tuple[Share, ...]
    loops: tuple[Loop, ...]
    loops_left_out: int
    source_lines: tuple[LineCount, ...]
    directives: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelName:
    """A kernel of the file that is not taken apart here."""

    name: str
    arch: str | None
    registers: int | None
    stack_bytes: int | None


@dataclass(frozen=True)
class CacheVariant:
    """One compiled variant in a Triton cache, with what its metadata says."""

    path: str
    name: str
    modified: str  # UTC
    chosen: bool
    target: str | None
    num_warps: int | None
    num_stages: int | None
    num_ctas: int | None
    shared_bytes: int | None
    maxnreg: int | None
    triton_version: str | None


@dataclass(frozen=True)
class Disassembly:
    """Findings first, then one page of the listing."""

    path: str
    level: str
    findings: tuple[Finding, ...]
    kernels: tuple[KernelCode, ...]
    other_kernels: tuple[KernelName, ...]
    n_kernels: int
    variants: tuple[CacheVariant, ...]
    n_variants: int
    warnings: tuple[str, ...]
    n_lines: int
    offset: int
    next_offset: int | None
    truncated: bool
    note: str | None
    text: str
    made_by: str  # the program that read the file, with its version
    schema_version: int = 1
