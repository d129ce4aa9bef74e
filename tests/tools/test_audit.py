"""Claims about audit: evidence proves each verdict, every change to log, copy or board is named, and nothing is repaired."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "judge"))
from handmade import evidence, fresh, quiet

from hotkernel.errors import ToolError
from hotkernel.judge import samples
from hotkernel.judge.verdict import decide
from hotkernel.records import comparisons
from hotkernel.schema.audit import AuditResult
from hotkernel.schema.comparison import Comparison, Source
from hotkernel.schema.verdict import Evidence, Fault, Side, VerdictKind
from hotkernel.session import Session
from hotkernel.tools.audit import audit
from hotkernel.tools.records import record

TEXT = "def candidate(x, w):\n    return x * w\n"
REPOSITORY = Path(__file__).parents[2]
BASELINE = """import torch
from hotkernel_contract import Target

def twice(x):
    return (x.double() * 2).to(x.dtype)

TARGET = Target(name="twice", function=twice, inputs={"x": "64x256"}, dtype="fp32", device="cpu")
"""


def session(folder: Path) -> Session:
    (folder / "work").mkdir(exist_ok=True)
    environment = {**os.environ, "HOTKERNEL_STATE_DIR": str(folder / "state"), "HOTKERNEL_PYTHON": sys.executable}
    return Session(root=folder / "work", environment=environment)


def compared(found: Evidence, number: int) -> Comparison:
    """What a referee would have made of this evidence."""
    verdict = decide(found)
    values = samples.values_of(found.plan, found.batches, found.fills)
    refused = verdict.kind in (VerdictKind.INCORRECT, VerdictKind.INVALID)
    return Comparison(
        id=f"20261130-1352{number:02d}-a1b2c3d4", target="rms", verdict=verdict.kind, reason=verdict.reason, rule=verdict.rule,
        speedup=verdict.speedup, interval_99=verdict.interval, baseline=samples.measurement_of(values, Side.BASELINE),
        candidate=None if refused else samples.measurement_of(values, Side.CANDIDATE), timestamp="2026-11-30T13:52:00+00:00",
        protocol=4, device="cuda", assurance="process", gpu="NVIDIA H200", evidence=found,
        sources={"candidate": Source("rms_candidate.py", hashlib.sha256(TEXT.encode()).hexdigest(), TEXT)})


FASTER = evidence(quiet(400, 3), quiet(300, 3), fresh(400, 300, 3))
EQUAL = evidence(quiet(400, 3), quiet(400, 3))
WRONG = Evidence(EQUAL.plan, faults=(Fault(VerdictKind.INCORRECT, "wrong_values", "3 of 9 outputs are wrong", Side.CANDIDATE),))


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """Three records, made as people make them."""
    for number, found in enumerate((FASTER, EQUAL, WRONG)):
        comparison = compared(found, number)
        comparisons.save(tmp_path / "state", comparison)
        record(session(tmp_path), "rms", comparison.id, note=f"try {number}")
    return tmp_path


def logs(folder: Path) -> list[Path]:
    return sorted((folder / "work" / "results" / "rms").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    plain = json.loads(path.read_text(encoding="utf-8"))
    change(plain["comparison"])
    path.write_text(json.dumps(plain), encoding="utf-8")


def problems(found: AuditResult) -> str:
    return "; ".join(problem for each in found.faulty for problem in each.problems)


def test_records_as_they_were_made_are_in_order(kept):
    found = audit(session(kept))

    assert (found.ok, found.checked, found.recomputed) == (True, 3, 3)
    assert found.faulty == ()
    assert found.board_problems == ()


def test_the_board_of_this_repository_is_in_order(tmp_path):
    found = audit(session(tmp_path), cwd=str(REPOSITORY))

    assert found.ok, (found.faulty, found.board_problems)
    assert found.recomputed == found.checked > 0


def forge_verdict(c: dict[str, Any]) -> None:
    c.update(verdict="faster", speedup=2.0, interval_99=[1.9, 2.1], candidate=c["baseline"])


@pytest.mark.parametrize(("number", "change", "said"), [
    (1, forge_verdict, "it says faster, its evidence says inconclusive"),
    (2, lambda c: c.update(verdict="inconclusive", rule=None), "its evidence says incorrect"),
    (0, lambda c: c.update(speedup=c["speedup"] * 1.01), "it says a speedup of"),
    (0, lambda c: c["interval_99"].__setitem__(0, 1.3), "it says a speedup of"),
    (0, lambda c: c["candidate"].update(mean_ms=0.2), "its times of the candidate"),
    (0, lambda c: c["baseline"]["samples"].__setitem__(3, 0.5), "its times of the baseline"),
    (0, lambda c: c["evidence"]["batches"][5].update(span_us=1.0), "its evidence"),
    (0, lambda c: c["evidence"]["batches"].pop(), "its evidence"),
    (2, lambda c: c.update(rule="less_precise"), "it names the rule less_precise"),
    (0, lambda c: c.update(evidence=None), "it keeps no evidence"),
    (0, lambda c: c["sources"]["candidate"].update(text="def candidate(x, w):\n    return x\n"), "not the one whose hash"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_a_changed_log_is_named_with_what_differs(kept, number, change, said):
    changed = logs(kept)[number]
    edit(changed, change)
    found = audit(session(kept))

    assert not found.ok
    assert [each.log for each in found.faulty] == [f"results/rms/{changed.name}"]
    assert said in problems(found)


def test_a_log_that_is_not_what_verify_saved_is_named_even_if_it_agrees_with_itself(kept):
    other = compared(evidence(quiet(400, 3), quiet(200, 3), fresh(400, 200, 3)), 0)
    assert other.verdict is VerdictKind.FASTER

    def replace_all(c: dict[str, Any]) -> None:
        from hotkernel.schema.plain import to_plain
        c.update(to_plain(dataclasses.replace(other, id=c["id"])))

    edit(logs(kept)[0], replace_all)

    assert "not what verify saved" in problems(audit(session(kept)))


def test_a_copy_that_is_not_the_measured_candidate_is_named(kept):
    copy = logs(kept)[0].with_suffix("").with_suffix(".candidate.py")
    copy.write_text(TEXT + "# faster now\n", encoding="utf-8")
    assert "is not the candidate that was measured" in problems(audit(session(kept)))

    copy.unlink()
    assert "is gone" in problems(audit(session(kept)))


def test_a_row_that_no_log_says_and_a_row_that_is_missing_are_named(kept):
    board = kept / "work" / "LEADERBOARD.md"
    text = board.read_text(encoding="utf-8")
    row = next(line for line in text.splitlines() if "1.33" in line)
    board.write_text(text.replace(row, row.replace("1.33", "9.99")), encoding="utf-8")
    found = audit(session(kept))

    assert not found.ok
    assert found.faulty == ()
    assert any("no log says this row" in problem and "9.99" in problem for problem in found.board_problems)
    assert any("missing or is not what the log says" in problem for problem in found.board_problems)


def test_an_audit_changes_nothing(kept):
    edit(logs(kept)[0], lambda c: c.update(speedup=9.0))
    before = {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()}
    audit(session(kept))

    assert {path: path.read_bytes() for path in kept.rglob("*") if path.is_file()} == before


def test_a_target_without_records_is_said(kept):
    with pytest.raises(ToolError, match="nothing is recorded of gelu"):
        audit(session(kept), target="gelu")


def test_where_nothing_is_recorded_nothing_is_in_order(tmp_path):
    with pytest.raises(ToolError, match="nothing is recorded under"):
        audit(session(tmp_path))


def test_a_run_that_is_not_recorded_is_said(kept):
    with pytest.raises(ToolError, match="no record is called"):
        audit(session(kept), run="20261130-000000-nothing1")


def test_a_row_whose_baseline_is_gone_cannot_be_verified_again(kept):
    with pytest.raises(ToolError, match="is not on this machine"):
        audit(session(kept), run="20261130-135200-a1b2c3d4")


def test_a_row_is_verified_again_from_its_kept_source(tmp_path):
    """The candidate's own file is gone: what is measured again is the record's copy, and a wrong one is wrong again."""
    pytest.importorskip("torch")
    from hotkernel.tools.speed import verify

    here = session(tmp_path)
    (here.root / "twice_baseline.py").write_text(BASELINE, encoding="utf-8")
    candidate = here.root / "twice_candidate.py"
    candidate.write_text("def candidate(x):\n    return x * 3\n", encoding="utf-8")
    try:
        first = verify(here, "twice_candidate.py", "twice_baseline.py", n=3)
        record(here, "twice", first.id)
        candidate.unlink()
        again = audit(here, run=first.id).again
    finally:
        here.nursery.close()

    assert again is not None
    assert (again.verdict_then, again.verdict_now, again.holds) == (VerdictKind.INCORRECT, VerdictKind.INCORRECT, True)
    assert again.id != first.id
