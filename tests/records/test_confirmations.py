"""Claims about confirmations: kept with their row, counted on the board, and never selecting anything."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from record_makers import compared, recorded

from hotkernel.errors import ToolError
from hotkernel.records import advice, confirmations, leaderboard, store
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.record import Logged

ROW = compared("faster", 1.5)


def confirming(verdict: str = "faster", speedup: float | None = 1.5, number: int = 1, of: str = ROW.id) -> Comparison:
    return replace(compared(verdict, speedup, number=number), confirms=of)


@pytest.fixture
def row(tmp_path: Path) -> Logged:
    return store.write(tmp_path, recorded(ROW))


def test_a_confirmation_stands_beside_its_row_and_is_no_row(tmp_path, row):
    for number in (1, 2):
        confirmations.write(tmp_path, row, confirming(number=number))
    shelf = store.read(tmp_path)

    assert [each.log for each in shelf.records] == [row.log]
    assert [each.id for each in shelf.records[0].confirmations] == [confirming(number=n).id for n in (1, 2)]
    assert shelf.skipped == ()
    assert sorted(path.name for path in (tmp_path / "results/rms").glob("*confirmation*")) == [
        "20261130-140000.confirmation-1.json", "20261130-140000.confirmation-2.json"]


def test_the_tenth_comes_after_the_ninth(tmp_path, row):
    for number in range(1, 12):
        confirmations.write(tmp_path, row, confirming(number=number))

    assert [each.id for each in store.read(tmp_path).records[0].confirmations] == [confirming(number=n).id for n in range(1, 12)]


def test_the_board_counts_those_that_came_to_the_rows_own_verdict(tmp_path, row):
    for found in (confirming(), confirming("inconclusive", 1.0, 2), confirming(number=3)):
        confirmations.write(tmp_path, row, found)
    path, _ = leaderboard.rebuild(tmp_path)

    assert "| process, 2 of 3 confirm |" in path.read_text(encoding="utf-8")


def test_a_confirmation_changes_neither_the_best_nor_the_advice(tmp_path, row):
    before = store.read(tmp_path).records
    confirmations.write(tmp_path, row, confirming("faster", 9.0))
    after = store.read(tmp_path).records

    for records in (before, after):
        best = advice.run_best([each.record for each in records], "rms", str(ROW.gpu_uuid))
        assert best is not None
        assert best.comparison.speedup == 1.5
    assert leaderboard.speedup_cell(after[0]) == leaderboard.speedup_cell(before[0])


def test_one_that_was_made_for_another_row_is_refused_and_one_that_lies_there_is_named(tmp_path, row):
    with pytest.raises(ToolError, match="was not made to confirm"):
        confirmations.write(tmp_path, row, confirming(of="20261130-000000-anotherx"))
    folder = tmp_path / "results/rms"
    (folder / "20261130-140000.confirmation-1.json").write_text(confirmations.as_json(confirming(of="x")), encoding="utf-8")
    (folder / "20261130-140000.confirmation-2.json").write_text("{", encoding="utf-8")
    shelf = store.read(tmp_path)

    assert shelf.records[0].confirmations == ()
    assert [each.reason[:11] for each in shelf.skipped] == ["it confirms", "it is no JS"]


def test_a_confirmation_cannot_be_recorded_as_a_row():
    with pytest.raises(ValueError, match="no record of its own"):
        recorded(confirming())
