"""Says what changed between two profiled kernels, in figures and in one sentence; does not say why it matters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from hotkernel.schema.explanation import Change, Difference, ProfileFigures, StallShare

TELLING_PCT = 5.0  # a figure that moved less is not named in the sentence
TELLING_POINTS = 5.0  # nor is a stall whose share moved less
WHY_LIMIT = 600  # characters: a record's note is one line
STALLS_SHOWN = 6

# What the sentence may name beside the time, the most telling first.
_NAMED = (
    ("dram_bytes", "DRAM bytes", "bytes"),
    ("dram_gbps", "DRAM throughput", "GB/s"),
    ("warp_instructions", "instructions", "count"),
    ("local_instructions", "spill loads and stores", "count"),
    ("registers", "registers a thread", "count"),
    ("occupancy_pct", "occupancy", "%"),
    ("tensor_pct", "tensor-core activity", "%"),
    ("l2_hit_pct", "L2 hits", "%"),
    ("shared_bytes_a_block", "shared memory a block", "bytes"),
)


@dataclasses.dataclass(frozen=True)
class Profile:
    """One side of a comparison."""

    name: str
    device: str | None
    figures: ProfileFigures
    stalls: tuple[StallShare, ...]
    kernels: int = 1  # different kernels in the report
    one_of_each_us: float | None = None  # their mean durations, summed: one call, where a call launches each once


def compare(before: Profile, after: Profile, *, report: str) -> Difference:
    """What changed from `before` to `after`; `report` is the path that `before` was read from."""
    old, new = _numbers(before.figures), _numbers(after.figures)
    changes = tuple(_change(name, old[name], new[name]) for name in old if (old[name], new[name]) != (None, None))
    moved = _stall_changes(before.stalls, after.stalls)
    old_us, new_us = old["duration_us"], new["duration_us"]
    speedup = old_us / new_us if old_us and new_us else None
    return Difference(
        against=report,
        kernel=before.name,
        device=before.device,
        speedup=speedup,
        why=_why(before, after, speedup, moved)[:WHY_LIMIT],
        kernels_before=before.kernels,
        kernels_after=after.kernels,
        one_of_each_before_us=before.one_of_each_us,
        one_of_each_after_us=after.one_of_each_us,
        changes=changes,
        stalls=moved[:STALLS_SHOWN],
    )


def _numbers(figures: ProfileFigures) -> dict[str, float | None]:
    """Every figure by name, and the sums that say more than their parts."""
    numbers = {field.name: getattr(figures, field.name) for field in dataclasses.fields(figures)}
    numbers["dram_bytes"] = _sum(figures.dram_read_bytes, figures.dram_write_bytes)
    numbers["local_instructions"] = _sum(figures.local_load_instructions, figures.local_store_instructions)
    return numbers


def _sum(*parts: float | None) -> float | None:
    known = [part for part in parts if part is not None]
    return sum(known) if len(known) == len(parts) else None


def _change(name: str, before: float | None, after: float | None) -> Change:
    share = 100 * (after - before) / before if before and after is not None else None
    return Change(name, before, after, share)


def _stall_changes(before: Sequence[StallShare], after: Sequence[StallShare]) -> tuple[Change, ...]:
    """Each reason's share on both sides, the one that moved most first; empty where a side was not sampled."""
    if not before or not after:
        return ()
    old, new = ({share.reason: share.share_pct for share in side} for side in (before, after))
    rows = [_change(reason, old.get(reason, 0.0), new.get(reason, 0.0)) for reason in sorted({*old, *new})]
    return tuple(sorted(rows, key=lambda row: -abs((row.after or 0) - (row.before or 0))))


def _why(before: Profile, after: Profile, speedup: float | None, stalls: Sequence[Change]) -> str:
    old, new = _numbers(before.figures), _numbers(after.figures)
    parts = [part for part in (_about_time(before, after, speedup), _about_kernels(before, after)) if part]
    said = len(parts)
    for name, words, unit in _NAMED:
        one, other = old[name], new[name]
        if one is None or other is None or (one == 0 and other == 0):
            continue
        if one == 0 or abs(other - one) / one * 100 >= TELLING_PCT:
            moved = f" ({100 * (other - one) / one:+.0f} %)" if one and unit != "%" else ""
            parts.append(f"{words} {_shown(one, unit)} to {_shown(other, unit)}{moved}")
    telling = [row for row in stalls if abs((row.after or 0) - (row.before or 0)) >= TELLING_POINTS]
    if telling:
        listed = ", ".join(f"{row.figure} {row.before:.0f} to {row.after:.0f} %" for row in telling[:3])
        parts.append(f"stalls: {listed}")
    if len(parts) == said:
        parts.append(f"no other figure that both reports hold moved by {TELLING_PCT:.0f} % or more")
    return "; ".join(parts)


def _about_time(before: Profile, after: Profile, speedup: float | None) -> str:
    old_us, new_us = before.figures.duration_us, after.figures.duration_us
    names = after.name[:60] if before.name == after.name else f"{after.name[:60]} against {before.name[:60]}"
    if speedup is None or old_us is None or new_us is None:
        return f"{names}: a report holds no duration"
    word = "as fast"
    if abs(speedup - 1) > 0.005:
        word = f"{speedup:.2f}x faster" if speedup > 1 else f"{1 / speedup:.2f}x slower"
    return f"{names}: {_shown(old_us, 'us')} to {_shown(new_us, 'us')} under the profiler, {word}"


def _about_kernels(before: Profile, after: Profile) -> str:
    """A fusion shows in no single kernel: one launch of each kernel of the report, added up."""
    old_us, new_us = before.one_of_each_us, after.one_of_each_us
    if (before.kernels, after.kernels) == (1, 1) or old_us is None or new_us is None:
        return ""
    return (f"one launch of each kernel in the reports: {before.kernels} with {_shown(old_us, 'us')} to "
            f"{after.kernels} with {_shown(new_us, 'us')}")


def _shown(value: float, unit: str) -> str:
    if unit == "bytes":
        for size, word in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
            if value >= size:
                return f"{value / size:.3g} {word}"
        return f"{value:.0f} bytes"
    if unit == "count":
        return f"{value / 1e6:.3g} million" if value >= 1e6 else f"{value:,.0f}"
    return f"{value:,.0f} {unit}" if value >= 1000 else f"{value:.4g} {unit}"
