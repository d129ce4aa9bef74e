"""Turns the counters of a profiled kernel's instructions into its hottest source lines, their stalls and findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from hotkernel.profilers import sass
from hotkernel.profilers.instructions import Instruction, plain, tail
from hotkernel.schema.disassembly import Finding
from hotkernel.schema.explanation import (
    HotInstruction,
    HotLine,
    ProfiledKernel,
    ProfileFigures,
    SampledInstruction,
    StallShare,
)

LINES_SHOWN = 8
INSTRUCTIONS_SHOWN = 4
LINE_STALLS_SHOWN = 3
LOOK_BACK = 400  # instructions between a load and the first use of what it brings
FINDINGS_SHOWN = 12
TELLING_PCT = 10.0  # a reason below this share of the samples is not worth a sentence
EXCESS_PCT = 10.0  # nor is this little traffic beyond the fewest sectors or wavefronts

# Each figure, the metrics that can give it (the first that the report has), and what they are divided by.
_FIGURES: dict[str, tuple[tuple[str, ...], float]] = {
    "duration_us": (("gpu__time_duration.sum",), 1e3),
    "dram_read_bytes": (("dram__bytes_read.sum", "dram__bytes_op_read.sum"), 1),
    "dram_write_bytes": (("dram__bytes_write.sum", "dram__bytes_op_write.sum"), 1),
    "dram_gbps": (("dram__bytes.sum.per_second",), 1e9),
    "dram_pct": (("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
                  "dram__throughput.avg.pct_of_peak_sustained_elapsed"), 1),
    "memory_pct": (("gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",), 1),
    "sm_pct": (("sm__throughput.avg.pct_of_peak_sustained_elapsed",), 1),
    "tensor_pct": (("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
                    "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active"), 1),
    "l1_hit_pct": (("l1tex__t_sector_hit_rate.pct",), 1),
    "l2_hit_pct": (("lts__t_sector_hit_rate.pct",), 1),
    "warp_instructions": (("smsp__inst_executed.sum", "inst_executed", "sm__inst_executed.sum"), 1),
    "occupancy_pct": (("sm__warps_active.avg.pct_of_peak_sustained_active",), 1),
    "occupancy_limit_pct": (("sm__maximum_warps_per_active_cycle_pct",), 1),
    "registers": (("launch__registers_per_thread",), 1),
    "shared_bytes_a_block": (("launch__shared_mem_per_block",), 1),
    "local_load_instructions": (("smsp__sass_inst_executed_op_local_ld.sum", "sass__inst_executed_local_loads"), 1),
    "local_store_instructions": (("smsp__sass_inst_executed_op_local_st.sum", "sass__inst_executed_local_stores"), 1),
    "sm_clock_mhz": (("smsp__cycles_elapsed.avg.per_second", "sm__cycles_elapsed.avg.per_second"), 1e6),
}
_LIMITS = {
    "launch__occupancy_limit_registers": "registers",
    "launch__occupancy_limit_shared_mem": "shared memory",
    "launch__occupancy_limit_warps": "the block's size",
    "launch__occupancy_limit_blocks": "the number of blocks",
    "launch__occupancy_limit_barriers": "barriers",
}
METRICS = frozenset({name for names, _ in _FIGURES.values() for name in names} | set(_LIMITS)
                    | {"launch__waves_per_multiprocessor"})

_MEANINGS = {
    "long_scoreboard": "they wait for data from global or local memory",
    "short_scoreboard": "they wait for shared memory, a special function or another slow unit",
    "barrier": "they wait for the block's other warps at a barrier",
    "wait": "they wait out the fixed latency of the instruction before",
    "math_pipe_throttle": "the arithmetic pipe is full",
    "lg_throttle": "the queue of global and local accesses is full: fewer and wider accesses help",
    "mio_throttle": "the queue of shared-memory and special instructions is full",
    "tex_throttle": "the texture queue is full",
    "drain": "they wait at their end for stores to leave",
    "no_instructions": "their next instructions are not fetched yet: large code, or jumps",
    "branch_resolving": "they wait for a branch",
    "imc_miss": "they wait for constants",
    "membar": "they wait at a memory fence",
    "sleeping": "they sleep",
    "warpgroup_arrive": "they wait for the warpgroup's tensor-core work",
    "gmma": "they wait for the warpgroup's tensor-core work",
}
_AT_WORK = frozenset({"selected", "not_selected"})  # issuing, or ready while another warp was chosen
_SLOW = {  # what can bring a register late, by the scoreboard that waits for it
    "long_scoreboard": frozenset({"global memory", "local memory", "atomics", "texture and surface"}),
    "short_scoreboard": frozenset({"shared memory", "shuffle and vote", "special functions", "conversion"}),
}


def figures(kernel: ProfiledKernel) -> ProfileFigures:
    """The launch in figures, null for what the report does not hold."""
    found: dict[str, float | None] = {}
    for field, (names, divisor) in _FIGURES.items():
        value = next((kernel.metrics[name] for name in names if name in kernel.metrics), None)
        found[field] = None if value is None else value / divisor
    return ProfileFigures(**found)


def stalls(instructions: Iterable[SampledInstruction]) -> tuple[StallShare, ...]:
    """What the warps of these instructions were doing when sampled, the most frequent first."""
    counts: Counter[str] = Counter()
    for each in instructions:
        counts.update(each.stalls)
    total = sum(counts.values())
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return tuple(StallShare(reason, count, 100 * count / total) for reason, count in ordered if count)


def hot_lines(kernel: ProfiledKernel) -> tuple[tuple[HotLine, ...], int]:
    """The lines with the most samples, and how many lines have any; an instruction without a place is its own line."""
    code = [sass.instruction(each.sass, each.address, each.place) for each in kernel.instructions]
    groups: dict[tuple[str, int], list[int]] = {}
    for at, each in enumerate(kernel.instructions):
        key = (each.place.file, each.place.line) if each.place else ("", each.address)
        groups.setdefault(key, []).append(at)
    total = sum(each.samples or 0 for each in kernel.instructions)
    sampled = {key: sum(kernel.instructions[at].samples or 0 for at in group) for key, group in groups.items()}
    ordered = sorted((key for key in groups if sampled[key]), key=lambda key: (-sampled[key], key))
    lines = tuple(_hot_line(kernel, code, key, groups[key], total) for key in ordered[:LINES_SHOWN])
    return lines, len(ordered)


def find(kernel: ProfiledKernel, numbers: ProfileFigures, lines: Sequence[HotLine]) -> tuple[Finding, ...]:
    """What an expert would say of this launch, the gravest first."""
    told = [*_about_spills(kernel, numbers), *_about_stalls(kernel, lines), *_about_bound(numbers),
            *_about_access(kernel), *_about_occupancy(kernel, numbers), *_about_divergence(kernel)]
    return tuple(Finding(rule, text) for rule, text in told[:FINDINGS_SHOWN])


def _hot_line(kernel: ProfiledKernel, code: Sequence[Instruction], key: tuple[str, int], group: Sequence[int],
              total: int) -> HotLine:
    of_line = [kernel.instructions[at] for at in group]
    samples = sum(each.samples or 0 for each in of_line)
    hottest = sorted(group, key=lambda at: (-(kernel.instructions[at].samples or 0), at))[:INSTRUCTIONS_SHOWN]
    text = kernel.sources.get(key[0], "").splitlines()
    has_line = bool(key[0])
    return HotLine(
        file=plain(key[0]) if has_line else None,
        line=key[1] if has_line else None,
        source=plain(text[key[1] - 1].strip(), 160) if has_line and 0 < key[1] <= len(text) else None,
        samples=samples,
        share_pct=100 * samples / total,
        stalls=stalls(of_line)[:LINE_STALLS_SHOWN],
        instructions=tuple(_hot_instruction(kernel, code, at) for at in hottest if kernel.instructions[at].samples),
        n_instructions=len(group),
    )


def _hot_instruction(kernel: ProfiledKernel, code: Sequence[Instruction], at: int) -> HotInstruction:
    each = kernel.instructions[at]
    reason = max(each.stalls, key=lambda name: (each.stalls[name], name), default=None)
    producer = _producer(code, at, _SLOW[reason]) if reason in _SLOW else None
    waits_for = None
    if producer is not None:
        place = f" ({_short(producer.place.file)}:{producer.place.line})" if producer.place else ""
        waits_for = f"{producer.address:#06x} {producer.opcode}{place}"
    return HotInstruction(f"{each.address:#06x}", plain(each.sass, 120), each.samples or 0, each.executed, reason,
                          waits_for)


def _producer(code: Sequence[Instruction], at: int, families: Collection[str]) -> Instruction | None:
    """The nearest instruction of `families` that writes a register which `at` reads, as far as straight code shows."""
    asks = code[at]
    reads = asks.operands if asks.base.startswith(("ST", "RED")) else asks.operands.partition(",")[2]
    wanted = {int(number) for number in re.findall(r"\bR(\d+)\b", reads)}
    for each in reversed(code[max(0, at - LOOK_BACK):at]):
        match = re.match(r"(?:PT, |P\d, )?R(\d+)\b", each.operands)
        if not match or each.base.startswith(("ST", "RED")):
            continue
        is_load = each.access is not None and not each.access.is_store
        width = max(1, (each.access.bits or 32) // 32) if is_load and each.access else 1
        written = set(range(int(match[1]), int(match[1]) + width))
        if written & wanted:
            if each.family in families:
                return each
            if not each.predicate:
                wanted -= written  # computed here: what came before does not matter to it
        if not wanted:
            break
    return None


def _about_stalls(kernel: ProfiledKernel, lines: Sequence[HotLine]) -> Iterable[tuple[str, str]]:
    for share in stalls(kernel.instructions):
        if share.reason in _AT_WORK or share.share_pct < TELLING_PCT:
            continue
        place = _place_of(share.reason, lines)
        meaning = _MEANINGS.get(share.reason, "see ncu's documentation of warp stalls")
        yield "stall", f"{share.share_pct:.0f} % of the warps' samples are {share.reason}: {meaning}{place}"


def _place_of(reason: str, lines: Sequence[HotLine]) -> str:
    """Where most samples of a reason lie, and what those instructions wait for."""
    counts = {line: sum(share.samples for share in line.stalls if share.reason == reason) for line in lines}
    most = max(lines, key=lambda line: counts[line], default=None)
    if most is None or not counts[most]:
        return ""
    where = f"{_short(most.file)}:{most.line}" if most.file else most.instructions[0].address
    loads = Counter(each.waits_for for each in most.instructions if each.stall == reason and each.waits_for)
    return f"; most at {where}" + (f", for {loads.most_common(1)[0][0]}" if loads else "")


def _about_spills(kernel: ProfiledKernel, numbers: ProfileFigures) -> Iterable[tuple[str, str]]:
    local = [each for each in kernel.instructions if re.search(r"\b(?:LDL|STL)\b", each.sass)]
    executed = (numbers.local_load_instructions or 0) + (numbers.local_store_instructions or 0)
    executed = executed or sum(each.executed or 0 for each in local)
    if executed and numbers.warp_instructions:
        yield "spills", (
            f"local memory: {executed:,.0f} loads and stores, {100 * executed / numbers.warp_instructions:.1f} % of "
            "executed instructions: registers spill, or an array has a computed index")


def _about_bound(numbers: ProfileFigures) -> Iterable[tuple[str, str]]:
    dram, memory, sm = numbers.dram_pct, numbers.memory_pct, numbers.sm_pct
    if sm is None or (dram is None and memory is None):
        return
    told = ", ".join(f"{name} {value:.0f} %" for name, value in (("DRAM", dram), ("memory", memory), ("SM", sm))
                     if value is not None) + " of peak"
    most = max(value for value in (dram, memory) if value is not None)
    if max(most, sm) < 60:
        yield "bound", f"latency bound: neither memory nor arithmetic is near its peak ({told})"
    elif dram is not None and most >= sm and dram >= 0.9 * most:
        yield "bound", f"memory bound ({told}): only fewer bytes, or better reuse, make it much faster"
    elif most >= sm:
        yield "bound", (f"bound by the caches or shared memory rather than by DRAM ({told}): fewer, wider or "
                        "conflict-free accesses make it faster")
    else:
        yield "bound", f"compute bound ({told}): fewer or cheaper instructions make it faster"


def _about_access(kernel: ProfiledKernel) -> Iterable[tuple[str, str]]:
    for rule, what, used, ideal, advice in (
        ("uncoalesced", "L2 sectors of global accesses", "sectors", "ideal_sectors",
         "neighbouring threads should touch neighbouring addresses"),
        ("bank-conflicts", "wavefronts of shared memory", "wavefronts", "ideal_wavefronts", "pad or swizzle the tile"),
    ):
        excess = {at: getattr(each, used) - getattr(each, ideal) for at, each in enumerate(kernel.instructions)
                  if getattr(each, used) is not None and getattr(each, ideal) is not None}
        total = sum(getattr(kernel.instructions[at], used) for at in excess)
        if total and 100 * sum(excess.values()) / total >= EXCESS_PCT:
            worst = kernel.instructions[max(excess, key=lambda at: (excess[at], -at))]
            where = f"{_short(worst.place.file)}:{worst.place.line}" if worst.place else f"{worst.address:#06x}"
            share = 100 * sum(excess.values()) / total
            yield rule, f"{share:.0f} % of the {what} are more than needed, most at {where}: {advice}"


def _about_occupancy(kernel: ProfiledKernel, numbers: ProfileFigures) -> Iterable[tuple[str, str]]:
    if numbers.occupancy_limit_pct is not None and numbers.occupancy_limit_pct < 99:
        blocks = {word: kernel.metrics[name] for name, word in _LIMITS.items() if name in kernel.metrics}
        least = min(blocks, key=lambda word: blocks[word], default=None)
        reached = "" if numbers.occupancy_pct is None else f" ({numbers.occupancy_pct:.0f} % reached)"
        yield "occupancy", (f"at most {numbers.occupancy_limit_pct:.0f} % of the warps fit{reached}"
                            + (f": {blocks[least]:.0f} blocks a multiprocessor, limited by {least}" if least else ""))
    waves = kernel.metrics.get("launch__waves_per_multiprocessor")
    if waves is not None and 0 < waves < 1:
        yield "small-grid", f"the grid fills the card {waves:.2f} times: some multiprocessors get less work, or none"


def _about_divergence(kernel: ProfiledKernel) -> Iterable[tuple[str, str]]:
    both = [(each.threads, each.executed) for each in kernel.instructions if each.threads is not None and each.executed]
    executed = sum(count for _, count in both)
    if executed and (threads := sum(count for count, _ in both) / executed) < 26:
        yield "divergence", f"{threads:.1f} of 32 threads take part on average: branches divide the warps"


def _short(file: str | None) -> str:
    return plain(tail(file or ""), 80)
