"""Claims about history, show and supersede: what was tried is told whole, and no dead end is lost."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "records"))
from record_makers import compared, recorded

from hotkernel import tools
from hotkernel.errors import ToolError
from hotkernel.mcp import answers
from hotkernel.records import confirmations, pins, store
from hotkernel.schema.plain import to_plain
from hotkernel.schema.record import Logged
from hotkernel.session import Session
from hotkernel.tools.history import history, show
from hotkernel.tools.supersede import supersede


@pytest.fixture
def session(tmp_path: Path) -> Session:
    """Three tries at rms: one kept, one wrong, one that found nothing."""
    (tmp_path / "work").mkdir()
    environment = {"HOTKERNEL_STATE_DIR": str(tmp_path / "state"), "PATH": os.environ["PATH"]}
    here = Session(root=tmp_path / "work", environment=environment)
    for number, (verdict, speedup, note) in enumerate([("faster", 1.5, "vector loads"), ("incorrect", None, "skip the tail"),
                                                       ("inconclusive", 1.0, "more warps")]):
        keep(here, number, verdict, speedup, note)
    return here


def keep(session: Session, number: int, verdict: str, speedup: float | None, note: str) -> Logged:
    cmds = {"baseline": ["python", str(session.root / "rms_baseline.py")]}
    return store.write(session.root, recorded(compared(verdict, speedup, number=number, cmds=cmds), second=number, note=note))


def test_history_says_what_was_tried_what_came_of_it_and_why(session):
    found = history(session, "rms")

    assert [(each.note, each.verdict.value, each.decision.value) for each in found.entries] == [
        ("more warps", "inconclusive", "revert"), ("skip the tail", "incorrect", "revert"), ("vector loads", "faster", "keep")]
    assert (found.won, found.lost, found.total) == (1, 2, 3)
    assert found.entries[1].reason == "it is incorrect"


def test_what_was_superseded_is_history_too(session):
    supersede(session, "rms", "baseline changed", run="20261130-140001.json")
    found = history(session, "rms")

    assert [each.note for each in found.entries] == ["more warps", "vector loads"]
    assert [(each.note, each.verdict, each.reason) for each in found.superseded] == [
        ("skip the tail", "incorrect", "baseline-changed")]
    assert found.superseded_total == 1


@pytest.mark.parametrize("name", ["20261130-140000.json", "results/rms/20261130-140000.json", "20261130-135200-a1b2c3d4"])
def test_a_record_is_shown_by_its_id_or_its_log(session, name):
    found = show(session, name)

    assert found.entry.note == "vector loads"
    assert found.text == "def candidate(x, w):\n    return x * 0\n"
    assert found.advice.startswith("keep: ")
    assert found.mean_ms == {"baseline": 0.054, "candidate": 0.036, "incumbent": None}


def test_a_targets_name_shows_its_newest(session):
    assert show(session, "rms").entry.note == "more warps"


def test_two_records_differ_by_their_sources_and_their_figures(session):
    found = show(session, "20261130-140002.json", "20261130-140000.json")

    assert "-    return x * 0\n+    return x * 2" in found.text
    assert (found.added, found.removed) == (1, 1)
    assert found.against is not None
    assert found.against.note == "vector loads"
    assert [(each.before, each.after) for each in found.figures if each.figure == "verdict"] == [("faster", "inconclusive")]
    assert "measured at two times" in found.warnings[0]


def test_a_baseline_that_is_not_at_hand_is_said(session):
    found = show(session, "20261130-140000.json", "baseline")

    assert found.text is None
    assert found.note == "the source of baseline is not at hand as it was measured"


def test_confirmations_are_shown_with_their_row(session):
    logged = store.read(session.root).records[0]
    found = replace(compared("slower", 0.9, number=9), confirms=logged.record.comparison.id)
    confirmations.write(session.root, logged, found)
    shown = show(session, logged.log)

    assert (shown.entry.confirmations, shown.entry.confirmed) == (1, 0)
    assert shown.confirmations == (f"{found.id}: slower, it is slower",)


def test_an_unknown_record_is_said_with_the_newest(session):
    with pytest.raises(ToolError, match="no record is called") as caught:
        show(session, "20260101-000000-nothing1")
    assert "20261130-140002.json" in caught.value.fix


def test_superseding_a_whole_target_forgets_what_its_baseline_was_pinned_to(session, tmp_path):
    baseline = session.root / "rms_baseline.py"
    pins.save(tmp_path / "state", baseline, {str(baseline): "f" * 64})
    one = supersede(session, "rms", "a-mistake", run="20261130-140001.json")
    known = pins.load(tmp_path / "state", baseline)
    rest = supersede(session, "rms", "baseline-changed")

    assert (one.left, one.pins_forgotten, bool(known)) == (2, False, True)
    assert (len(rest.moved), rest.left, rest.pins_forgotten) == (2, 0, True)
    assert pins.load(tmp_path / "state", baseline) == {}
    assert "No record yet." in Path(rest.leaderboard).read_text(encoding="utf-8")


@pytest.mark.parametrize(("target", "reason", "run", "said"), [
    ("gelu", "x", "", "nothing is recorded of gelu"), ("rms", "../x", "", "cannot name a folder"),
    ("rms", "x", "nothing", "no record of rms is called")])
def test_superseding_nothing_is_refused_and_moves_nothing(session, target, reason, run, said):
    with pytest.raises(ToolError, match=said):
        supersede(session, target, reason, run=run)

    assert len(store.read(session.root).records) == 3


def test_an_agent_with_little_room_is_told_of_the_newest_tries(session):
    for number in range(3, 60):
        keep(session, number, "slower", 0.9, f"try {number}")
    told, _ = answers._fit(tools.find("history", tools.LISTED), to_plain(history(session, "rms")), session.root)

    assert told["truncated"]
    assert told["entries"][0]["note"] == "try 59"
    assert len(told["entries"]) > 10
