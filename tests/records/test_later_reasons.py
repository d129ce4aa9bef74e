"""Claims about a reason that is found after its row was recorded: added once, dated, and the log stays as it was."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from record_makers import compared, recorded

from hotkernel.errors import ToolError
from hotkernel.records import comparisons, later_reasons, store, superseding
from hotkernel.schema.explanation import Difference
from hotkernel.schema.record import LaterReason, Logged

TODAY = "2026-12-01T09:00:00+00:00"
WHY = Difference("a.ncu-rep", "rms", "NVIDIA H200", 2.0, "it reads x once", 2, 1, 9.0, 4.5, (), ())


@pytest.fixture
def row(tmp_path: Path) -> Logged:
    return store.write(tmp_path, recorded(compared()))


def kept(base: Path) -> Logged:
    return store.read(base).records[0]


def test_it_stands_beside_the_log_and_is_no_row(tmp_path, row):
    before = (tmp_path / row.log).read_bytes()
    later_reasons.write(tmp_path, row, WHY, TODAY)
    shelf = store.read(tmp_path)

    assert (tmp_path / row.log).read_bytes() == before
    assert [(each.log, each.why, each.record.why) for each in shelf.records] == [(row.log, WHY, None)]
    assert kept(tmp_path).later_reason == LaterReason(row.record.comparison.id, TODAY, WHY)
    assert shelf.skipped == ()


def test_no_reason_is_written_over_be_it_the_rows_own_or_a_later_one(tmp_path, row):
    later_reasons.write(tmp_path, row, WHY, TODAY)
    own = store.write(tmp_path, replace(recorded(compared(number=1), second=1), why=WHY))
    for each in (row, kept(tmp_path), own):
        with pytest.raises(ToolError, match="has its reason already"):
            later_reasons.write(tmp_path, each, replace(WHY, why="another"), TODAY)

    assert [each.why for each in store.read(tmp_path).records] == [WHY, WHY]


@pytest.mark.parametrize(("text", "said"), [("{", "it is no JSON"), ("{}", "of"), (None, "lies beside another log")])
def test_what_is_called_so_and_is_none_is_named(tmp_path, row, text, said):
    other = comparisons.as_json(LaterReason("20261130-000000-anotherx", TODAY, WHY))
    later_reasons.path_of(tmp_path / row.log).write_text(other if text is None else text, encoding="utf-8")
    shelf = store.read(tmp_path)

    assert shelf.records[0].why is None
    assert [each.path for each in shelf.skipped] == ["results/rms/20261130-140000.why.json"]
    assert said in shelf.skipped[0].reason


def test_it_moves_with_a_log_that_counts_no_longer(tmp_path, row):
    later_reasons.write(tmp_path, row, WHY, TODAY)
    superseding.supersede(tmp_path, store.read(tmp_path).records, "older")

    assert later_reasons.path_of(tmp_path / "results/rms/superseded-older" / Path(row.log).name).is_file()
    assert store.read(tmp_path).skipped == ()
