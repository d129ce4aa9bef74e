"""Claims about superseding: logs move with all that is theirs, nothing is written over, and the board lists them apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from record_makers import compared, recorded

from hotkernel.errors import ToolError
from hotkernel.records import confirmations, leaderboard, store, superseding


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Two rows of rms, the first with a confirmation."""
    first = store.write(tmp_path, recorded(compared(number=1), second=1, note="one"))
    confirmations.write(tmp_path, first, replace(compared(number=9), confirms=first.record.comparison.id))
    store.write(tmp_path, recorded(compared(number=2), second=2, note="two"))
    return tmp_path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_file())


def test_a_log_moves_with_its_copy_and_its_confirmations(base):
    moved = superseding.supersede(base, store.read(base).records[:1], "baseline changed")
    folder = base / "results/rms/superseded-baseline-changed"

    assert moved == ("results/rms/20261130-140001.json",)
    assert names(folder) == ["20261130-140001.candidate.py", "20261130-140001.confirmation-1.json", "20261130-140001.json"]
    assert names(base / "results/rms") == ["20261130-140002.candidate.py", "20261130-140002.json"]


def test_what_is_superseded_counts_no_longer_and_stands_apart_on_the_board(base):
    superseding.supersede(base, store.read(base).records[:1], "baseline-changed")
    path, shelf = leaderboard.rebuild(base)
    counted, _, apart = path.read_text(encoding="utf-8").partition("## Superseded")

    assert [each.record.note for each in shelf.records] == ["two"]
    assert [(each.note, each.reason, each.verdict) for each in shelf.superseded] == [("one", "baseline-changed", "faster")]
    assert shelf.skipped == ()
    assert "[one]" not in counted
    assert "[one]" in apart


def test_a_log_never_goes_over_another(base):
    folder = base / "results/rms/superseded-why"
    folder.mkdir()
    (folder / "20261130-140001.json").write_text("mine", encoding="utf-8")
    with pytest.raises(ToolError, match="is there already"):
        superseding.supersede(base, store.read(base).records, "why")

    assert (folder / "20261130-140001.json").read_text(encoding="utf-8") == "mine"
    assert (base / "results/rms/20261130-140001.json").is_file()


def test_what_was_interrupted_is_finished_by_asking_again(base):
    folder = base / "results/rms/superseded-why"
    folder.mkdir()
    (base / "results/rms/20261130-140001.candidate.py").rename(folder / "20261130-140001.candidate.py")
    superseding.supersede(base, store.read(base).records, "why")

    assert len(names(folder)) == 5
    assert store.read(base).records == ()


@pytest.mark.parametrize("reason", ["", "../up", "a/b", "-x", ".hidden", "x" * 60, "new\nline\x00"])
def test_a_reason_that_is_no_folders_name_is_refused(reason):
    with pytest.raises(ToolError, match="cannot name a folder"):
        superseding.folder_name(reason)
