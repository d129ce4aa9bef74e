"""The tools that read machine code: what a compiled kernel consists of, and where a profiled one spends its time."""

from __future__ import annotations

import datetime
import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from hotkernel.errors import ToolError
from hotkernel.machine import binaries
from hotkernel.machine.binaries import CacheEntry
from hotkernel.machine.source_report import Launch, SourceReport
from hotkernel.profilers import findings, profile_difference, sass, source_counters
from hotkernel.profilers.instructions import Function, ResourceUsage, plain
from hotkernel.profilers.profile_difference import Profile
from hotkernel.schema.disassembly import CacheVariant, Disassembly, Finding, KernelCode, KernelName
from hotkernel.schema.explanation import Difference, Explanation, ProfiledKernel
from hotkernel.schema.plain import to_plain
from hotkernel.session import Session
from hotkernel.tools import code_files
from hotkernel.tools.code_files import Code

PAGE_CHARACTERS = 10_000
EXPLANATION_CHARACTERS = 12_000  # of JSON: under 8,000 tokens at 1.5 characters a token
KERNELS_SHOWN = 3
OTHERS_SHOWN = 40
VARIANTS_SHOWN = 20
TRITON_CACHE = "triton-cache"


def disasm(
    session: Session,
    target: Annotated[str, "a .cubin, .ptx, .fatbin, .so, .exe, .o or .a; or triton-cache: the newest that `kernel` fits"],
    level: Annotated[Literal["sass", "ptx"], "sass: machine code; ptx: its source"] = "sass",
    kernel: Annotated[str, "only kernels whose name contains this"] = "",
    max_lines: Annotated[int, "of a page; 0: as many as fit"] = 1500,
    offset: Annotated[int, "first line; next_offset of the page before"] = 0,
) -> Disassembly:
    """Read a compiled kernel: findings first, then its listing in pages of 10,000 characters.

    Findings: registers, stack, spills, shared memory, instruction mix, widths of global accesses, tensor cores, barriers,
    loops, source lines; counts are of the code, not of executions. Needs
    cuobjdump and nvdisasm, no GPU.
    """
    if target == TRITON_CACHE:
        entries = code_files.cached(session, kernel, ".ptx" if level == "ptx" else ".cubin")
        path = entries[0].path
        kernel = ""  # the file was chosen by it; its code may bear a longer or shorter name
    else:
        path = session.file(target)
        entries = [binaries.cache_entry(path)]
        entries = entries if "num_warps" in entries[0].metadata else []
    session.progress(f"reading {path.name}", None, None)
    code = code_files.ptx_of(session, path, kernel) if level == "ptx" else code_files.sass_of(session, path, kernel)
    return _answer(path, code, entries, max_lines, offset)


def explain(
    session: Session,
    report: Annotated[str, "an .ncu-rep, best of profile(tool=ncu, ncu_set=full)"],
    kernel: Annotated[str, "launches whose kernel's name contains this (default: the longest)"] = "",
    against: Annotated[str, "an .ncu-rep of the kernel before"] = "",
) -> Explanation:
    """Say where a profiled kernel's time goes, and, with `against`, what changed from another profile.

    Findings and the hottest source lines, with why their warps wait and their SASS; of a difference one sentence, too,
    for a record's note. Needs NVIDIA's ncu-report (PyPI).
    """
    opened = SourceReport.open(session.job, session.file(report))
    launch, fitting = _launch(opened, kernel)
    session.progress(f"reading {plain(launch.name, 80)}", None, None)
    profiled = opened.kernel(launch, source_counters.METRICS)
    numbers = source_counters.figures(profiled)
    lines, n_lines = source_counters.hot_lines(profiled)
    others = sorted({plain(each.name) for each in opened.launches if each.name != launch.name})
    difference, warnings = None, _warnings(profiled, launch, len(fitting))
    if against:
        difference, more = _difference(session, against, kernel, profiled, opened)
        warnings += more
    return _bounded(Explanation(
        report=str(opened.path), kernel=plain(profiled.name), device=profiled.device, grid=profiled.grid,
        block=profiled.block, launches=len(fitting), other_kernels=tuple(others[:10]),
        findings=source_counters.find(profiled, numbers, lines), difference=difference, figures=numbers,
        samples=sum(each.samples or 0 for each in profiled.instructions) if lines else None,
        stalls=source_counters.stalls(profiled.instructions)[:10], lines=lines, n_lines=n_lines,
        truncated=n_lines > len(lines), warnings=warnings))


# --- the answer of disasm ---------------------------------------------------------------------------------------------


def _answer(path: Path, code: Code, entries: Sequence[CacheEntry], max_lines: int, offset: int) -> Disassembly:
    kernels = [findings.kernel_code(each, _usage(each, code.usage), is_sass=code.is_sass) for each in code.functions]
    ordered = sorted(kernels, key=lambda each: (-_spilled(each), -each.instructions))
    shown, others = ordered[:KERNELS_SHOWN], ordered[KERNELS_SHOWN:]
    found = [*(_about_launch(entries[0]) if entries else ()), *findings.find(shown, is_sass=code.is_sass)]
    if also := [each.name[:60] for each in others if _spilled(each)]:
        found.append(Finding("spills", f"{len(also)} more kernels spill: {code_files.listed(also)}"))
    warnings = code.warnings
    if len(entries) > 1:
        warnings += (f"{len(entries)} cached files fit; this is the newest: give another's path to read that one",)
    page, following = _page(code.lines, offset, max_lines)
    return Disassembly(
        path=str(path), level="sass" if code.is_sass else "ptx", findings=tuple(found), kernels=tuple(shown),
        other_kernels=tuple(KernelName(each.name, each.arch, each.registers, each.stack_bytes)
                            for each in others[:OTHERS_SHOWN]),
        n_kernels=len(kernels),
        variants=tuple(_variant(entry, entry is entries[0]) for entry in entries[:VARIANTS_SHOWN]),
        n_variants=len(entries), warnings=warnings, n_lines=len(code.lines), offset=offset, next_offset=following,
        truncated=following is not None,
        note=None if following is None else f"lines {offset} to {following - 1} of {len(code.lines)}; "
        f"call again with offset={following}",
        text="\n".join(page), made_by=code.made_by)


def _page(lines: Sequence[str], offset: int, max_lines: int) -> tuple[list[str], int | None]:
    """The lines from `offset` that fit on a page, at least one, and where the next page begins."""
    if offset and offset >= len(lines):
        raise ToolError(f"offset={offset} lies behind the listing's {len(lines)} lines",
                        fix="begin again with offset=0")
    page: list[str] = []
    room = PAGE_CHARACTERS
    for line in lines[offset : offset + max_lines] if max_lines > 0 else lines[offset:]:
        if page and len(line) + 1 > room:
            break
        page.append(line)
        room -= len(line) + 1
    following = offset + len(page)
    return page, following if following < len(lines) else None


def _usage(function: Function, usage: Sequence[ResourceUsage]) -> ResourceUsage | None:
    """What the file says this kernel needs; in a cubin the architecture is not repeated."""
    return next((each for each in usage if plain(each.function, sass.WHOLE_NAME) == function.name
                 and each.arch in (None, function.arch)), None)


def _spilled(kernel: KernelCode) -> int:
    return (kernel.spill_stores or 0) + (kernel.spill_loads or 0)


def _about_launch(entry: CacheEntry) -> list[Finding]:
    counts = {key: _whole(entry.metadata, key) for key in ("num_warps", "num_stages", "num_ctas", "shared", "maxnreg")}
    told = [text for text, is_told in (
        (f"num_warps={counts['num_warps']}", counts["num_warps"] is not None),
        (f"num_stages={counts['num_stages']}", counts["num_stages"] is not None),
        (f"num_ctas={counts['num_ctas']}", (counts["num_ctas"] or 1) > 1),
        (f"maxnreg={counts['maxnreg']}", counts["maxnreg"] is not None),
        (f"{counts['shared'] or 0:,} bytes of shared memory a block", counts["shared"] is not None),
    ) if is_told]
    return [Finding("launch", f"compiled with {', '.join(told)}")] if told else []


def _variant(entry: CacheEntry, chosen: bool) -> CacheVariant:
    metadata = entry.metadata
    target = metadata.get("target")
    if isinstance(target, dict):
        target = f"{target.get('backend')}:{target.get('arch')}"
    modified = datetime.datetime.fromtimestamp(entry.modified_s, datetime.UTC).isoformat(timespec="seconds")
    return CacheVariant(str(entry.path), plain(entry.name), modified, chosen, plain(str(target)) if target else None,
                        _whole(metadata, "num_warps"), _whole(metadata, "num_stages"), _whole(metadata, "num_ctas"),
                        _whole(metadata, "shared"), _whole(metadata, "maxnreg"),
                        plain(str(metadata["triton_version"])) if metadata.get("triton_version") else None)


def _whole(metadata: Mapping[str, Any], key: str) -> int | None:
    value = metadata.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


# --- the answer of explain --------------------------------------------------------------------------------------------


def _launch(opened: SourceReport, kernel: str) -> tuple[Launch, list[Launch]]:
    """The longest launch whose kernel's name contains `kernel`, and all such launches."""
    fitting = [each for each in opened.launches if kernel in each.name]
    if not fitting:
        names = sorted({plain(each.name) for each in opened.launches})
        raise ToolError(f"no launch in {opened.path.name} has a kernel whose name contains {kernel!r}",
                        fix=f"one of: {code_files.listed(names)}")
    return max(fitting, key=lambda each: each.duration_us or -1.0), fitting


def _warnings(profiled: ProfiledKernel, launch: Launch, n_fitting: int) -> tuple[str, ...]:
    told = []
    if n_fitting > 1:
        told.append(f"{n_fitting} launches fit; this is the longest")
    if launch.duration_us is None:
        told.append("ncu could not measure this launch's duration")
    if not any(each.samples for each in profiled.instructions):
        told.append("the report has no samples per instruction: profile with --set full (or --section SourceCounters)")
    elif not any(each.place for each in profiled.instructions):
        told.append("no line information: lines are single instructions; compile with -lineinfo (Triton does)")
    elif not profiled.sources:
        told.append("the source text is not in the report: profile with ncu_set=full (ncu: --import-source yes)")
    return tuple(told)


def _difference(session: Session, against: str, kernel: str, profiled: ProfiledKernel,
                now: SourceReport) -> tuple[Difference, tuple[str, ...]]:
    """What changed from the launch in `against`: of the same kernel, else of `kernel`, else of the longest."""
    opened = SourceReport.open(session.job, session.file(against))
    names = [name for name in (profiled.name, kernel, "") if any(name in each.name for each in opened.launches)]
    launch, _ = _launch(opened, names[0])
    other = opened.kernel(launch, source_counters.METRICS)
    sides = [_side(other, opened), _side(profiled, now)]
    warnings = []
    if other.device != profiled.device:
        warnings.append(f"two cards: {other.device or 'unknown'} before, {profiled.device or 'unknown'} now")
    clocks = [side.figures.sm_clock_mhz for side in sides]
    if clocks[0] and clocks[1] and abs(clocks[1] / clocks[0] - 1) > 0.03:
        warnings.append(f"the SM clock was {clocks[0]:.0f} MHz before, {clocks[1]:.0f} MHz now; times show that, too")
    warnings.append("times under the profiler are not a verdict: verify compares the two")
    return profile_difference.compare(*sides, report=str(opened.path)), tuple(warnings)


def _side(kernel: ProfiledKernel, report: SourceReport) -> Profile:
    durations: dict[str, list[float]] = {}
    for each in report.launches:
        if each.duration_us is not None:
            durations.setdefault(each.name, []).append(each.duration_us)
    is_whole = all(each.name in durations for each in report.launches)
    return Profile(plain(kernel.name), kernel.device, source_counters.figures(kernel),
                   source_counters.stalls(kernel.instructions), len({each.name for each in report.launches}),
                   sum(statistics.fmean(each) for each in durations.values()) if is_whole else None)


def _bounded(whole: Explanation) -> Explanation:
    """`whole` with as many of its lines as fit into the answer's bound."""
    while whole.lines and len(json.dumps(to_plain(whole))) > EXPLANATION_CHARACTERS:
        whole = replace(whole, lines=whole.lines[:-1], other_kernels=whole.other_kernels[:3], truncated=True)
    return whole
