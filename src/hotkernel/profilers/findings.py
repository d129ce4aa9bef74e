"""Says what an expert would point at in a kernel's code; counts what stands in the file, not what runs."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence

from hotkernel.profilers import control_flow
from hotkernel.profilers.instructions import Function, Instruction, ResourceUsage, plain, tail
from hotkernel.schema.disassembly import (
    Finding,
    GlobalAccesses,
    KernelCode,
    LineCount,
    Loop,
    OpcodeCount,
    Share,
    WidthCount,
)

LOOPS_SHOWN = 8
MIX_SHOWN = 8
LINES_SHOWN = 10
OPCODES_SHOWN = 8
REGISTERS_PER_MULTIPROCESSOR = 65536  # CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"
REGISTERS_PER_GRANT = 256  # a warp's registers are given out in such pieces (the same guide; CUDA occupancy calculator)
MAX_WARPS = {"70": 64, "72": 64, "75": 32, "80": 64, "86": 48, "87": 48, "89": 48, "90": 64, "100": 64, "103": 64,
             "120": 48, "121": 48}  # resident warps of a multiprocessor, the same table
# An instruction has 16 bytes since Volta, the L1.5 cache 128 KiB (Jia et al. 2018, arXiv:1804.06826, for Volta).
MANY_INSTRUCTIONS = 128 * 1024 // 16
FINDINGS_SHOWN = 24
_BULK_LOADS = ("UBLKCP", "UTMALDG")


def kernel_code(function: Function, usage: ResourceUsage | None, *, is_sass: bool) -> KernelCode:
    """One kernel's code in counts; what neither the code nor `usage` says is null."""
    rows = function.instructions
    loops, unseen = _loops(function)
    local = [row for row in rows if row.access and row.access.space == "local"]
    spills = [row for row in local if row.access and row.access.is_spill]
    registers = usage.registers if usage else None
    max_warps = MAX_WARPS.get(re.sub(r"\D", "", function.arch or "")) if is_sass else None
    return KernelCode(
        name=plain(function.name),
        arch=function.arch,
        instructions=len(rows),
        registers=registers,
        stack_bytes=usage.stack_bytes if usage else function.stack_bytes,
        shared_bytes=usage.shared_bytes if usage else None,
        spill_stores=sum(_is_store(row) for row in spills) if is_sass else None,
        spill_loads=sum(not _is_store(row) for row in spills) if is_sass else None,
        spill_store_bytes=_spill_bytes(spills, usage, stores=True) if is_sass else None,
        spill_load_bytes=_spill_bytes(spills, usage, stores=False) if is_sass else None,
        local_array_accesses=len(local) - len(spills),
        register_limited_warps=_warps(registers, max_warps),
        max_warps=max_warps,
        global_loads=_widths(row for row in rows if _is_global(row) and not _is_store(row)),
        global_stores=_widths(row for row in rows if _is_global(row) and _is_store(row)),
        tensor_core=_opcodes(row for row in rows if row.family == "tensor cores"),
        bulk_copies=_opcodes(row for row in rows if row.family == "async copy"),
        barriers=_opcodes(row for row in rows if row.family == "barriers"),
        mix=_mix(rows),
        loops=tuple(loops[:LOOPS_SHOWN]),
        loops_left_out=unseen + max(0, len(loops) - LOOPS_SHOWN),
        source_lines=_lines(rows),
        directives=function.directives,
    )


def find(kernels: Sequence[KernelCode], *, is_sass: bool) -> tuple[Finding, ...]:
    """The findings about `kernels`, the gravest first; each names its kernel where there are several."""
    found: list[Finding] = []
    for kernel in kernels:
        of_arch = f" ({kernel.arch})" if len({each.arch for each in kernels}) > 1 else ""
        of_kernel = f"{kernel.name[:60]}{of_arch}: " if len(kernels) > 1 else ""
        told = [*_about_spills(kernel), *_about_tensor_cores(kernel), *_about_loops(kernel), *_about_widths(kernel),
                *_about_registers(kernel), *_about_the_rest(kernel)]
        found += [Finding(rule, of_kernel + text) for rule, text in told]
    order = ("spills", "local-array")
    found.sort(key=lambda finding: order.index(finding.rule) if finding.rule in order else len(order))
    if not is_sass and kernels:
        found.insert(0, Finding("ptx", "this is PTX: registers, spills and the final order show in SASS alone"))
    return tuple(found[:FINDINGS_SHOWN])


def _about_spills(kernel: KernelCode) -> Iterable[tuple[str, str]]:
    moved = (kernel.spill_stores or 0) + (kernel.spill_loads or 0)
    if moved:
        inside = sum(loop.spills for loop in kernel.loops if loop.depth == 1)
        yield "spills", (
            f"it spills: {_count(kernel.spill_stores, 'store')} and {_count(kernel.spill_loads, 'load')} of local "
            f"memory off the stack pointer ({kernel.spill_store_bytes:,} and {kernel.spill_load_bytes:,} bytes a "
            f"thread), {100 * moved / kernel.instructions:.1f} % of its instructions"
            + (f"; stack {kernel.stack_bytes:,} bytes" if kernel.stack_bytes is not None else "")
            + (f"; {inside} of them in loops" if inside else "")
            + ". Keep fewer values alive (a smaller tile, more warps for it), or raise the register limit")
    if kernel.local_array_accesses:
        yield "local-array", (
            f"{_count(kernel.local_array_accesses, 'access', 'accesses')} to local memory at a computed address: an "
            "array that registers cannot hold, as its index is not known when compiling; unroll, or use shared memory")


def _about_tensor_cores(kernel: KernelCode) -> Iterable[tuple[str, str]]:
    if kernel.tensor_core:
        total = sum(each.count for each in kernel.tensor_core)
        named = ", ".join(f"{each.opcode} x{each.count}" for each in kernel.tensor_core[:4])
        yield "tensor-cores", f"tensor cores: {total} in the code ({named})"
        return
    for loop in kernel.loops:
        fp32 = next((share for share in loop.mix if share.name == "fp32"), None)
        if fp32 and fp32.share_pct >= 40 and fp32.count >= 64 and not loop.inner_loops:
            yield "no-tensor-cores", (
                f"no tensor-core instruction, though the loop {loop.start}-{loop.end} is {fp32.share_pct:.0f} % fp32 "
                "arithmetic: if it is a matrix product, give it operands that tensor cores take")


def _about_loops(kernel: KernelCode) -> Iterable[tuple[str, str]]:
    work = [loop for loop in kernel.loops if loop.kind == "work"]
    for loop in [loop for loop in work if not loop.inner_loops][:3]:
        moved = f" ({loop.global_load_bytes} bytes a thread)" if loop.global_load_bytes else ""
        main = ", ".join(f"{share.name} {share.share_pct:.0f} %" for share in loop.mix[:3])
        source = f" ({loop.source})" if loop.source else ""
        yield "loop", (
            f"innermost loop {loop.start}-{loop.end}{source}: {_count(loop.instructions, 'instruction')}, "
            f"{_count(loop.global_loads, 'global load')}{moved}, {loop.tensor} tensor, "
            f"{_count(loop.barriers, 'barrier')} an iteration; {main}")
    if not work and kernel.instructions > 64:
        yield "no-loop", "no loop that does work: everything is unrolled, or each thread runs straight through"


def _about_widths(kernel: KernelCode) -> Iterable[tuple[str, str]]:
    for word, accesses in (("load", kernel.global_loads), ("store", kernel.global_stores)):
        if not accesses.widths:
            continue
        total = sum(width.count for width in accesses.widths)
        narrow = sum(width.count for width in accesses.widths if width.bits <= 32)
        listed = ", ".join(f"{width.bits} bits x{width.count}" for width in accesses.widths)
        advice = ("; 128 bits need fewer instructions, where a thread's elements lie side by side and aligned"
                  if narrow and word == "load" else "")
        yield f"global-{word}s", f"global {word}s of one thread: {listed}" + (
            f"; {narrow} of {total} move 32 bits or less{advice}" if narrow else "")


def _about_registers(kernel: KernelCode) -> Iterable[tuple[str, str]]:
    warps, most = kernel.register_limited_warps, kernel.max_warps
    if warps is not None and most is not None and warps < most:
        yield "registers", (f"{kernel.registers} registers a thread leave room for {warps} of {most} warps a "
                            f"multiprocessor ({100 * warps / most:.0f} %), before shared memory and block size")


def _about_the_rest(kernel: KernelCode) -> Iterable[tuple[str, str]]:
    counts = {share.name: share for share in kernel.mix}
    if "fp64" in counts:
        yield "fp64", (f"{_count(counts['fp64'].count, 'fp64 instruction')}: slow on most cards; often a literal "
                       "without f, or a Python float that became a double")
    if kernel.bulk_copies:
        listed = ", ".join(f"{each.opcode} x{each.count}" for each in kernel.bulk_copies[:4])
        yield "bulk-copies", f"asynchronous copies: {listed}"
    if kernel.barriers:
        listed = ", ".join(f"{each.opcode} x{each.count}" for each in kernel.barriers[:4])
        yield "barriers", f"barriers and waits: {listed}"
    if kernel.instructions > MANY_INSTRUCTIONS:
        yield "code-size", (f"{kernel.instructions:,} instructions ({kernel.instructions * 16 // 1024} KiB) outgrow "
                            "the instruction caches: unroll less")


def _loops(function: Function) -> tuple[list[Loop], int]:
    """The loops with work in them first, each kind by where it begins."""
    bodies, unseen = control_flow.loops(function)
    sets = [frozenset(body.positions) for body in bodies]
    found = []
    for body, inside in zip(bodies, sets, strict=True):
        around = sum(inside < other for other in sets)
        within = sum(other < inside for other in sets)
        found.append(_loop(function.instructions, body, around + 1, within))
    found.sort(key=lambda loop: loop.kind != "work")
    return found, unseen


def _loop(rows: Sequence[Instruction], body: control_flow.Body, depth: int, within: int) -> Loop:
    inside = [rows[position] for position in body.positions]
    loads = [row for row in inside if _is_global(row) and not _is_store(row)]
    bulk = [row for row in inside if row.base in _BULK_LOADS or row.opcode.startswith("cp.async.bulk")]
    known = [row.access.bits for row in loads if row.access and row.access.bits is not None]
    lines = sorted({row.place.line for row in inside if row.place and row.place.line})  # line 0: the compiler's own
    files = {row.place.file for row in inside if row.place}
    numbers = (f"{rows[body.head].address:#06x}", f"{rows[body.back].address:#06x}")
    return Loop(
        *(numbers if not rows[body.head].opcode.islower() else (f"line {rows[body.head].address}",
                                                                f"line {rows[body.back].address}")),
        instructions=len(inside),
        depth=depth,
        inner_loops=within,
        kind=_kind(inside, rows[body.back]),
        global_loads=len(loads) + len(bulk),
        global_load_bytes=None if bulk or len(known) < len(loads) else sum(known) // 8,
        global_stores=sum(_is_global(row) and _is_store(row) for row in inside),
        shared_accesses=sum(row.family == "shared memory" for row in inside),
        spills=sum(bool(row.access and row.access.is_spill) for row in inside),
        tensor=sum(row.family == "tensor cores" for row in inside),
        barriers=sum(row.family == "barriers" for row in inside),
        mix=_mix(inside)[:5],
        source=f"{tail(files.pop())}:{_span(lines)}" if len(files) == 1 and lines else None,
    )


def _kind(inside: Sequence[Instruction], back: Instruction) -> str:
    if back.opcode.startswith("BRA.U.ANY"):
        return "election"
    waits = any("TRYWAIT" in row.opcode or "try_wait" in row.opcode or "test_wait" in row.opcode for row in inside)
    return "wait" if waits and len(inside) <= 12 else "work"


def _mix(rows: Sequence[Instruction]) -> tuple[Share, ...]:
    counts = Counter(row.family for row in rows)
    shares = [Share(name, count, 100 * count / len(rows)) for name, count in counts.items()]
    shares.sort(key=lambda share: (-share.count, share.name))
    rest = shares[MIX_SHOWN:]
    kept = [share for share in rest if share.name in ("tensor cores", "fp64", "local memory", "barriers")]
    return (*shares[:MIX_SHOWN], *kept)


def _widths(rows: Iterable[Instruction]) -> GlobalAccesses:
    counts = Counter(row.access.bits for row in rows if row.access and row.access.bits is not None)
    widths = tuple(WidthCount(bits, count) for bits, count in sorted(counts.items(), reverse=True))
    return GlobalAccesses(widths[0].bits if widths else None, widths[-1].bits if widths else None, widths)


def _opcodes(rows: Iterable[Instruction]) -> tuple[OpcodeCount, ...]:
    counts = Counter(row.opcode for row in rows)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(OpcodeCount(opcode, count) for opcode, count in ordered[:OPCODES_SHOWN])


def _lines(rows: Sequence[Instruction]) -> tuple[LineCount, ...]:
    counts = Counter((row.place.file, row.place.line) for row in rows if row.place and row.place.line)
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(LineCount(tail(file), line, count, 100 * count / len(rows))
                 for (file, line), count in ordered[:LINES_SHOWN])


def _warps(registers: int | None, most: int | None) -> int | None:
    """Warps that a multiprocessor's registers hold, to its limit."""
    if not registers or most is None:
        return None
    granted = -(-registers * 32 // REGISTERS_PER_GRANT) * REGISTERS_PER_GRANT
    warps = REGISTERS_PER_MULTIPROCESSOR // granted
    return min(most, warps - warps % 4)  # a multiprocessor has four partitions, each with its own registers


def _is_global(row: Instruction) -> bool:
    return bool(row.access and row.access.space in ("global", "generic"))


def _is_store(row: Instruction) -> bool:
    return bool(row.access and row.access.is_store)


def _spill_bytes(spills: Sequence[Instruction], usage: ResourceUsage | None, *, stores: bool) -> int:
    """What the assembler said where it was asked, else the sum over the code; the two agree wherever both were seen."""
    said = (usage.spill_store_bytes if stores else usage.spill_load_bytes) if usage else None
    return said if said is not None else sum(
        row.access.bits or 0 for row in spills if row.access and row.access.is_store is stores) // 8


def _span(lines: Sequence[int]) -> str:
    return str(lines[0]) if lines[0] == lines[-1] else f"{lines[0]}-{lines[-1]}"


def _count(number: int | None, noun: str, nouns: str = "") -> str:
    return f"{number or 0:,} {noun if number == 1 else nouns or noun + 's'}"
