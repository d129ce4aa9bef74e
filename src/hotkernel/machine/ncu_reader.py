"""A process of its own around NVIDIA's ncu_report, which aborts the process on a damaged file; imports nothing of ours.

    python ncu_reader.py REPORT OUT.json METRIC…              every launch: names, metrics as [value, unit], rules
    python ncu_reader.py --launch N REPORT OUT.json METRIC…   that launch alone: its metrics, instructions and sources

Exit status 3: no report, 4: ncu_report does not load; the last line of standard error says why.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NO_REPORT, NO_READER = 3, 4
SOURCE_LIMIT = 2_000_000  # characters of one imported source file
_MAGIC = b"NVR\0"
_SAMPLES = "smsp__pcsamp_sample_count"
_EXECUTED = "inst_executed"
_STALL = "smsp__pcsamp_warps_issue_stalled_"
# Counters of one instruction beside its samples, under the names of schema.explanation.
_COUNTERS = {
    "threads": "thread_inst_executed",
    "sectors": "memory_l2_theoretical_sectors_global",
    "ideal_sectors": "memory_l2_theoretical_sectors_global_ideal",
    "wavefronts": "memory_l1_wavefronts_shared",
    "ideal_wavefronts": "memory_l1_wavefronts_shared_ideal",
}


def main(argv: list[str]) -> int:
    try:
        import ncu_report  # type: ignore[import-untyped, import-not-found, unused-ignore]
    except ImportError as error:
        print(error, file=sys.stderr)
        return NO_READER
    number = int(argv[1]) if argv[0] == "--launch" else None
    path, out, *wanted = argv if number is None else argv[2:]
    try:
        # The report's own object must live as long as what came out of it.
        report, actions = _opened(ncu_report, path)
        found = [_listed(each, wanted) for each in actions] if number is None else _whole(actions[number], wanted)
    except Exception as error:  # noqa: BLE001 - a SWIG binding raises anything, among it plain Exception
        print(str(error) or type(error).__name__, file=sys.stderr)
        return NO_REPORT
    del report
    Path(out).write_text(json.dumps(found, default=str), encoding="utf-8")
    return 0


def _opened(ncu_report: Any, path: str) -> tuple[Any, list[Any]]:
    with open(path, "rb") as file:
        if file.read(4) != _MAGIC:  # ncu_report would take it for a report without launches
            raise ValueError("it is not a report of Nsight Compute")
    report = ncu_report.load_report(path)
    ranges = [report.range_by_idx(index) for index in range(report.num_ranges())]
    actions = [one.action_by_idx(index) for one in ranges for index in range(one.num_actions())]
    if not actions:
        raise ValueError("it holds no launch: it is cut off, or ncu captured nothing")
    if any(action.name() is None for action in actions):
        raise ValueError("it is damaged: a launch in it has no name")
    return report, actions


def _listed(action: Any, wanted: list[str]) -> dict[str, Any]:
    rules = action.rule_results_as_dicts() if hasattr(action, "rule_results_as_dicts") else []
    return {
        "name": action.name(action.NameBase_DEMANGLED) or action.name(),
        "function": action.name(),
        "metrics": _metrics(action, wanted),
        "rules": list(rules),
    }


def _whole(action: Any, wanted: list[str]) -> dict[str, Any]:
    sources = {name: text[:SOURCE_LIMIT] for name, text in action.source_files().items() if text}
    return {"metrics": _metrics(action, wanted), "instructions": _instructions(action), "sources": sources}


def _metrics(action: Any, wanted: list[str]) -> dict[str, tuple[Any, str]]:
    found = {name: action.metric_by_name(name) for name in wanted}
    return {name: (metric.value(), metric.unit() or "")
            for name, metric in found.items() if metric is not None and metric.value() is not None}


def _instructions(action: Any) -> list[dict[str, Any]]:
    executed, samples = _per_instruction(action, _EXECUTED), _per_instruction(action, _SAMPLES)
    reasons = [name for name in action.metric_names() if name.startswith(_STALL) and not name.endswith("_not_issued")]
    stalls = {name[len(_STALL):]: _per_instruction(action, name) for name in reasons}
    counters = {field: _per_instruction(action, name) for field, name in _COUNTERS.items()}
    return [
        {
            "address": address,
            "sass": action.sass_by_pc(address) or "",
            "place": _place(action, address),
            "executed": executed.get(address),
            "samples": samples.get(address, 0) if samples else None,
            "stalls": {reason: counts[address] for reason, counts in stalls.items() if counts.get(address)},
            **{field: counts.get(address) for field, counts in counters.items()},
        }
        for address in sorted({*executed, *samples})
    ]


def _per_instruction(action: Any, name: str) -> dict[int, int]:
    """A metric's value at each instruction's address; empty where the report has it for the whole launch only."""
    metric = action.metric_by_name(name)
    if metric is None or not metric.has_correlation_ids():
        return {}
    addresses = metric.correlation_ids()
    if addresses.num_instances() != metric.num_instances():
        return {}
    return {addresses.as_uint64(at): int(metric.as_double(at)) for at in range(metric.num_instances())}


def _place(action: Any, address: int) -> dict[str, Any] | None:
    known = action.source_info(address)
    return {"file": known.file_name(), "line": known.line()} if known and known.file_name() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
