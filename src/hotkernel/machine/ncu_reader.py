"""A process of its own around NVIDIA's ncu_report, which aborts the process on a damaged file; imports nothing of ours.

    python ncu_reader.py REPORT OUT.json METRIC…

Writes every launch to OUT.json: name, the metrics as [value, unit], and its rules. Exit status 3: no report.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

NO_REPORT = 3


def main(argv: list[str]) -> int:
    import ncu_report  # type: ignore[import-untyped, import-not-found, unused-ignore]

    path, out, *wanted = argv
    try:
        report = ncu_report.load_report(path)
        ranges = [report.range_by_idx(index) for index in range(report.num_ranges())]
        actions = [one.action_by_idx(index) for one in ranges for index in range(one.num_actions())]
        found = [_action(action, wanted) for action in actions]
    except Exception as error:  # noqa: BLE001 - a SWIG binding raises anything, among it plain Exception
        print(error, file=sys.stderr)
        return NO_REPORT
    if not ranges:
        # ncu_report loads a file that is no report without a word and finds nothing in it.
        print("it holds no profiled range", file=sys.stderr)
        return NO_REPORT
    Path(out).write_text(json.dumps(found, default=str), encoding="utf-8")
    return 0


def _action(action: Any, wanted: list[str]) -> dict[str, Any]:
    metrics = {}
    for name in wanted:
        metric = action.metric_by_name(name)
        if metric is not None and metric.value() is not None:
            metrics[name] = (metric.value(), metric.unit() or "")
    rules = action.rule_results_as_dicts() if hasattr(action, "rule_results_as_dicts") else []
    return {"name": action.name(action.NameBase_DEMANGLED) or action.name(), "metrics": metrics, "rules": list(rules)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
