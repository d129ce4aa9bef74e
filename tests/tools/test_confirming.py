"""Claims about confirmations as they are asked for: measured afresh, apart from the key's test, kept with the row."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotkernel.errors import ToolError
from hotkernel.records import comparisons, store
from hotkernel.schema.comparison import VerifyResult
from hotkernel.schema.record import RecordResult
from hotkernel.schema.verdict import VerdictKind
from hotkernel.session import Session
from hotkernel.tools.audit import audit
from hotkernel.tools.records import record
from hotkernel.tools.speed import verify

pytest.importorskip("torch")
BASELINE = """import torch
from hotkernel_contract import Target

def twice(x):
    return (x.double() * 2).to(x.dtype)

TARGET = Target(name="twice", function=twice, inputs={"x": "64x256"}, dtype="fp32", device="cpu")
"""


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Session, VerifyResult, RecordResult]]:
    """A wrong candidate, judged, recorded and confirmed twice: a verdict that no busy machine changes."""
    folder = tmp_path_factory.mktemp("confirming")
    environment = {**os.environ, "HOTKERNEL_STATE_DIR": str(folder / "state"), "HOTKERNEL_PYTHON": sys.executable}
    session = Session(root=folder, environment=environment)
    (folder / "twice_baseline.py").write_text(BASELINE, encoding="utf-8")
    (folder / "twice_candidate.py").write_text("def candidate(x):\n    return x * 3\n", encoding="utf-8")
    first = verify(session, "twice_candidate.py", "twice_baseline.py", n=3)
    yield session, first, record(session, "twice", first.id, confirm=2)
    session.nursery.close()


def test_confirmations_are_fresh_verifies_kept_with_the_row(judged):
    session, first, kept = judged
    shelf = store.read(session.root)
    row = shelf.records[0]

    assert (len(shelf.records), kept.confirmations, kept.confirmed) == (1, 2, 2)
    assert len({first.id, *(each.id for each in row.confirmations)}) == 3
    for each in row.confirmations:
        assert (each.verdict, each.confirms, each.tries) == (VerdictKind.INCORRECT, first.id, None)
        assert each.evidence is not None
        assert each.evidence.earlier == ()
    assert "2 of 2 confirm" in Path(kept.leaderboard).read_text(encoding="utf-8")
    assert row.record.baseline_files[str(session.root / "twice_baseline.py")] == BASELINE
    assert audit(session, "twice").ok


def test_a_confirmation_is_no_row_of_its_own(judged):
    session, *_ = judged
    state = Path(session.environment["HOTKERNEL_STATE_DIR"])
    confirming = next(each for each in comparisons.newest(state, 99) if comparisons.load(state, each).confirms)
    with pytest.raises(ToolError, match="was made to confirm"):
        record(session, "twice", confirming)


def test_an_edited_confirmation_is_named_by_an_audit(judged):
    session, *_ = judged
    path = next((session.root / "results/twice").glob("*.confirmation-1.json"))
    honest = path.read_text(encoding="utf-8")
    path.write_text(honest.replace('"verdict": "incorrect"', '"verdict": "slower"', 1), encoding="utf-8")
    found = audit(session, "twice")
    path.write_text(honest, encoding="utf-8")

    assert not found.ok
    assert any(problem.startswith("confirmation 1: it says slower, its evidence says incorrect")
               for each in found.faulty for problem in each.problems)
