"""Tables of what benchmarks/judge.py found, and what verdicts resampled from its equal sides would be; measures nothing."""

from __future__ import annotations

import collections
import random
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from hotkernel.judge.verdict import next_step
from hotkernel.schema.verdict import Mode, Pair, Plan

RESAMPLED = 20_000


def resampled(rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Whole verdicts on pairs drawn from all that were measured of equal sides, either way round."""
    bank = [Pair(**pair) for row in rows for pair in row.get("pairs", ())]
    if len(bank) < 30:
        return None
    plan, chance = Plan(Mode.BATCHES, 2, 10, 8, (3, 5, 7, 10), 3), random.Random(20261130)
    told: collections.Counter[str] = collections.Counter()
    for _ in range(RESAMPLED):
        pairs: list[Pair] = []
        while (step := next_step(plan, pairs)).verdict is None:
            have = sum(pair.stage is step.stage for pair in pairs)
            for number in range(step.pairs - have):
                pair, sign = chance.choice(bank), chance.choice((1, -1))
                pairs.append(Pair(step.stage, len(pairs) + number, sign * pair.log_ratio, pair.within_sd, pair.values))
        told[str(step.verdict.kind)] += 1
    logs = [pair.log_ratio for pair in bank]
    return {"pairs": len(bank), "sd_pct": 100 * statistics.stdev(logs), "mean_pct": 100 * statistics.fmean(logs),
            "runs": RESAMPLED, "rates_pct": {kind: 100 * count / RESAMPLED for kind, count in told.items()}}


# Tables ---------------------------------------------------------------------------------------------------------------


def tables(parts: dict[str, list[dict[str, Any]]]) -> Iterator[str]:
    """Of each part that ran, line by line."""
    by_part = {"cupti": _of_cupti, "aa": _of_aa, "planted": _of_planted, "launches": _of_launches, "slopes": _of_slopes,
              "forked": _of_forked, "speed": _of_speed, "original": _of_original}
    for name, table in by_part.items():
        if parts.get(name):
            yield f"\n## {name}\n"
            yield from table(parts)


def _of_cupti(parts: dict[str, Any]) -> Iterator[str]:
    theirs = {row["label"]: row for row in parts.get("cupti_times", ())}
    yield "| kernel | device time, us (n) | sd of a value, us | CUPTI, us | gap between kernels, us | apart | from CUPTI + gap |"
    yield "|---|---|---|---|---|---|---|"
    for row in parts["cupti"]:
        mine, other = row.get("baseline"), theirs.get(row["label"])
        if mine and other:
            apart = mine["median_us"] - other["cupti_us"]
            yield (f"| {row['label']} | {mine['median_us']:.2f} ({mine['n']}) | {mine['std_us'] or 0:.2f} "
                   f"| {other['cupti_us']:.2f} | {other['gap_us']:.2f} "
                   f"| {apart:+.2f} us, {100 * apart / other['cupti_us']:+.1f} % | {apart - other['gap_us']:+.2f} us |")


def _counted(rows: list[dict[str, Any]]) -> dict[str, collections.Counter[str]]:
    counts: dict[str, collections.Counter[str]] = {}
    for row in rows:
        word = "equivalent" if row.get("equivalent") else row["verdict"]
        counts.setdefault(row["label"], collections.Counter())[word] += 1
    return counts


def _of_aa(parts: dict[str, Any]) -> Iterator[str]:
    yield "| equal sides | verdicts | sd of a pair, % | seconds, median |"
    yield "|---|---|---|---|"
    for label, counts in _counted(parts["aa"]).items():
        rows = [row for row in parts["aa"] if row["label"] == label]
        logs = [pair["log_ratio"] for row in rows for pair in row.get("pairs", ())]
        yield (f"| {label} | {_said(counts)} | {100 * statistics.stdev(logs) if len(logs) > 1 else 0:.3f} "
               f"| {statistics.median(row.get('seconds', 0) for row in rows):.2f} |")
    found = resampled(parts["aa"])
    if found:
        rates = ", ".join(f"{kind} {rate:.2f} %" for kind, rate in found["rates_pct"].items())
        yield (f"\nResampled: {found['runs']} verdicts on pairs drawn from these {found['pairs']} (sd {found['sd_pct']:.3f} %), "
               f"either way round: {rates}.")


def _of_planted(parts: dict[str, Any], part: str = "planted") -> Iterator[str]:
    yield "| a baseline that does more | verdicts | gain read, median | seconds, median |"
    yield "|---|---|---|---|"
    for label, counts in _counted(parts[part]).items():
        rows = [row for row in parts[part] if row["label"] == label]
        gains = [100 * (row["speedup"] - 1) for row in rows if row.get("speedup")]
        yield (f"| {label} | {_said(counts)} | {statistics.median(gains) if gains else 0:.2f} % "
               f"| {statistics.median(row.get('seconds', 0) for row in rows):.2f} |")


def _of_launches(parts: dict[str, Any]) -> Iterator[str]:
    return _of_planted(parts, "launches")


def _said(counts: collections.Counter[str]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.most_common())


def _of_slopes(parts: dict[str, Any]) -> Iterator[str]:
    yield "| kernel and way | us, both sides |"
    yield "|---|---|"
    for row in parts["slopes"]:
        yield f"| {row['label']} | {', '.join(f'{us:.2f}' for us in row['us']) if row['us'] else row['reason']} |"


def _of_forked(parts: dict[str, Any]) -> Iterator[str]:
    for label in ("forked", "cold"):
        rows = [row for row in parts["forked"] if row["label"] == label and row.get("baseline")]
        times = [row[side]["median_us"] for row in rows for side in ("baseline", "candidate")]
        if len(times) > 1:
            yield (f"{label}: {len(times)} processes, {min(times):.2f} to {max(times):.2f} us, "
                   f"median {statistics.median(times):.2f}, sd {statistics.stdev(times):.2f}\n")


def _of_speed(parts: dict[str, Any]) -> Iterator[str]:
    yield "| verify of the rmsnorm example, confirmation included | seconds | verdict | phases, s |"
    yield "|---|---|---|---|"
    for row in parts["speed"]:
        phases = ", ".join(f"{name} {seconds:.2f}" for name, seconds in (row.get("phases") or {}).items()
                           if seconds >= 0.05 and not name.startswith("batch"))
        yield f"| {row['label']} | {row.get('seconds', 0):.2f} | {row['verdict']} | {phases} |"


def _of_original(parts: dict[str, Any]) -> Iterator[str]:
    for row in parts["original"]:
        answer = row["answer"]
        said = answer.get("verdict") or answer.get("error")
        yield f"{row['label']}: {row['seconds']} s, {said}, speedup {answer.get('speedup')}\n"
