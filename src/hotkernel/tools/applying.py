"""Tries a candidate inside the user's own script: outputs and step times of fresh processes in turn, and Amdahl's expectation."""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.harness import scripts
from hotkernel.harness.scripts import Line, Script, ScriptFault
from hotkernel.judge import amdahl, samples
from hotkernel.records import comparisons
from hotkernel.records.state import state_dir
from hotkernel.schema.capture import Applied
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.verdict import Fault, Side, Verdict, VerdictKind
from hotkernel.session import Session
from hotkernel.tools import script_pairs, user_scripts
from hotkernel.tools.bench import check_counts
from hotkernel.tools.captured_targets import SCHEMA, key_of
from hotkernel.tools.card_lock import card_held
from hotkernel.tools.user_scripts import Asked

WARMUP = 1  # whole runs of a side before those that count; each run has warm-up steps of its own
SEARCHED = 200  # of the newest comparisons, for the candidate's


def apply(session: Session, asked: Asked, candidate: Path, *, output: str, rtol: float | None, n: int) -> Applied:
    """The candidate in the script's own step. Raises ToolError where it belongs to no captured target."""
    check_counts(n, WARMUP)
    known = _known(candidate)
    with tempfile.TemporaryDirectory(prefix="hotkernel-apply-") as scratch:
        told = {"step": asked.step, "output": output, "rtol": rtol, "known": known, "expected": f"{scratch}/expected.pt"}
        sides = {Side.BASELINE: _script(session, asked, Path(scratch), "baseline", {**told, "candidate": "", "check": False}),
                 Side.CANDIDATE: _script(session, asked, Path(scratch), "candidate",
                                         {**told, "candidate": str(candidate), "check": False})}
        check = _script(session, asked, Path(scratch), "check",
                        {**told, "candidate": str(candidate), "check": True, "expected": f"{scratch}/unused.pt"})
        with card_held(session):
            seen, fault = _checked(session, check)
            runs = script_pairs.run_in_turn(session, sides, WARMUP, n) if fault is None else script_pairs.Runs(fault=fault)
    return _applied(session, {**known, "is_other": known["capture"] != key_of(asked)}, candidate, sides, seen, runs)


def _known(candidate: Path) -> dict[str, Any]:
    """What capture wrote beside the target."""
    name = candidate.stem.removesuffix("_candidate")
    file = candidate.with_name(f"{name}_capture.json")
    try:
        known: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ToolError(f"{candidate.name} is no candidate of a captured target: {file.name} does not lie beside it",
                        fix="make the target with capture's pick, and give its <name>_candidate.py") from None
    if known.get("schema") != SCHEMA:
        raise ToolError(f"{file.name} was written by another hotkernel", fix="pick the row again")
    if known["is_inner"]:
        raise ToolError(f"{known['row']} is called inside of another operator, where no script can be given another",
                        fix="pick what calls it: a function of torch or a module")
    return known


def _script(session: Session, asked: Asked, scratch: Path, name: str, request: Mapping[str, Any]) -> Script:
    file = scratch / f"{name}.json"
    file.write_text(json.dumps(request), encoding="utf-8")
    argv = tuple(user_scripts.command(session, asked, "swapping", file))
    return Script(argv, f"{asked.script.name} ({name})", session.folder(asked.cwd), session.environment, asked.timeout_s)


def _checked(session: Session, check: Script) -> tuple[Line | None, Fault | None]:
    """Every swapped call of a first step, held against the original's on the same tensors."""
    session.progress("holding the candidate's calls against the script's own", None, None)
    try:
        line = scripts.run(session.job, check)
    except ScriptFault as error:
        return None, Fault(VerdictKind.INVALID, f"candidate_{error.rule}", error.message, Side.CANDIDATE)
    if line.ok is False:
        return line, Fault(VerdictKind.INCORRECT, "check_failed", str(line.values.get("why"))[:1000], Side.CANDIDATE)
    if not line.values.get("swapped"):
        reason = f"no call of the script is one of the target's ({line.values.get('left', 0)} of its name were left as they are)"
        return line, Fault(VerdictKind.INVALID, "nothing_swapped", reason, Side.CANDIDATE)
    return line, None


def _applied(session: Session, known: Mapping[str, Any], candidate: Path, sides: Mapping[Side, Script], seen: Line | None,
             runs: script_pairs.Runs) -> Applied:
    counted = {side: lines[WARMUP:] for side, lines in runs.lines.items()}
    verdict = script_pairs.verdict_of(runs.fault, counted)
    before, after = (samples.measure([line.ms for line in counted[side]]) for side in (Side.BASELINE, Side.CANDIDATE))
    comparison = _comparison(session, known["target"], candidate)
    expected, words = _expected(known, comparison, verdict, before, after)
    errors = [line.values["worst_error"] for line in runs.lines[Side.CANDIDATE] if line.values.get("worst_error") is not None]
    told = seen.values if seen else {}
    return Applied(
        target=known["target"], verdict=verdict.kind, reason=verdict.reason, rule=verdict.rule, speedup=verdict.speedup,
        before=before, after=after, swapped_calls=told.get("swapped"), left_calls=told.get("left"),
        predicted_speedup=expected.predicted if expected else None, measured_speedup=expected.measured if expected else None,
        agrees=expected.agrees if expected else None, agreement=words, comparison=comparison.id if comparison else None,
        worst_error=max(errors, default=None), cmds={str(side): list(what.argv) for side, what in sides.items()})


def _comparison(session: Session, target: str, candidate: Path) -> Comparison | None:
    """The newest verify of this very candidate, over all its cases."""
    state, sha256 = state_dir(session.environment), hashlib.sha256(candidate.read_bytes()).hexdigest()
    for each in comparisons.newest(state, SEARCHED):
        found = comparisons.load(state, each)
        source = found.sources.get("candidate")
        if found.target == target and source and source.sha256 == sha256 and not found.case and found.verdict is not None:
            return found
    return None


def _expected(known: Mapping[str, Any], comparison: Comparison | None, verdict: Verdict, before: Any,
              after: Any) -> tuple[amdahl.Expectation | None, str]:
    """What Amdahl says of it, or why nothing can be said."""
    if verdict.speedup is None or before is None or after is None:
        return None, "there is no gain to be expected of a candidate that is not right"
    if comparison is None:
        return None, "no verify of this very candidate is saved, so no gain is predicted: call verify first"
    if known["is_other"]:
        return None, "no gain is predicted: the script, its arguments or its step are not those of the capture; pick again"
    speedups = {row.case: (row.speedup, row.interval_99) for row in comparison.cases}
    parts = []
    for part in known["parts"]:
        speedup, interval = speedups.get(part["case"], (comparison.speedup, comparison.interval_99))
        if part["us"] is None or speedup is None:
            missing = "the capture has no time of its calls" if part["us"] is None else f"verify says {comparison.verdict}"
            return None, f"no gain is predicted: {missing}"
        low, high = interval or (speedup, speedup)
        # a card's own time is the same in and out of a profiler; the CPU's is not, but each operator's share of it is
        part_ms = part["us"] / 1e3 if known["device"] == "cuda" else part["share"] * before.mean_ms
        parts.append(amdahl.Part(part_ms, speedup, low, high))
    found = amdahl.expect(before, after, parts)
    return found, f"{found.words} (verify: {comparison.verdict})"
