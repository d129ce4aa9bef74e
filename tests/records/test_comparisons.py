"""Claims about what verify saves and how it is found again."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import pytest
from record_makers import compared

from hotkernel.errors import ToolError
from hotkernel.records import comparisons
from hotkernel.schema.comparison import Source
from hotkernel.schema.verdict import Batch, Evidence, Mode, Pair, Plan, Side, Stage


def test_an_id_is_its_time_in_utc_and_eight_random_characters() -> None:
    moment = datetime.datetime(2026, 11, 30, 15, 52, 14, tzinfo=datetime.timezone(datetime.timedelta(hours=2)))

    made = {comparisons.new_id(moment) for _ in range(50)}

    assert len(made) == 50
    assert all(each.startswith("20261130-135214-") and len(each) == 24 for each in made)
    assert all(comparisons.ID_PATTERN.fullmatch(each) for each in made)


def test_a_comparison_comes_back_as_it_was_saved_evidence_and_odd_bytes_included(tmp_path: Path) -> None:
    evidence = Evidence(
        plan=Plan(Mode.BATCHES, 4, 24, 8, (3, 5), 3),
        batches=(Batch(Side.BASELINE, Stage.LOOK, 0, 0, 4, 151.25, 0.5),),
        earlier=(Pair(Stage.LOOK, 0, 0.1234567890123456, None, 8),),
    )
    source = Source("rms_candidate.py", "c" * 64, b"# \xff\xfe caf\xc3\xa9\n".decode("utf-8", "surrogateescape"))
    saved = compared(evidence=evidence, sources={"candidate": source}, shapes={"x": [4096, 8192]})

    path = comparisons.save(tmp_path, saved)

    assert path == tmp_path / "comparisons" / f"{saved.id}.json"
    assert comparisons.load(tmp_path, saved.id) == saved


def test_saving_the_same_twice_changes_nothing_and_another_under_its_id_is_refused(tmp_path: Path) -> None:
    path = comparisons.save(tmp_path, compared())
    before = path.read_bytes()

    assert comparisons.save(tmp_path, compared()) == path
    with pytest.raises(ToolError, match="another comparison is saved"):
        comparisons.save(tmp_path, compared(speedup=9.0))
    assert path.read_bytes() == before


def test_an_unknown_id_lists_the_newest(tmp_path: Path) -> None:
    for number in range(8):
        comparisons.save(tmp_path, compared(number=number))

    with pytest.raises(ToolError) as caught:
        comparisons.load(tmp_path, "20261130-135299-zzzzzzzz")

    assert "20261130-135207-a1b2c3d4, 20261130-135206-a1b2c3d4" in caught.value.fix
    assert "135202" not in caught.value.fix


def test_an_unknown_id_where_nothing_is_saved_says_so(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="none is saved yet"):
        comparisons.load(tmp_path, "20261130-135214-a1b2c3d4")


@pytest.mark.parametrize("bad", ["", "../../etc/passwd", "a/b", "a b", "x" * 65, "a\n", "a.json", "é", "a\0"])
def test_what_cannot_be_an_id_never_reaches_the_disk(tmp_path: Path, bad: str) -> None:
    with pytest.raises(ToolError, match="no comparison has an id like"):
        comparisons.load(tmp_path, bad)
    with pytest.raises(ToolError, match="no comparison has an id like"):
        comparisons.save(tmp_path, dataclasses.replace(compared(), id=bad))


@pytest.mark.parametrize("content", [b"", b"{", b"{}", b'{"id": 5}', b'{"schema": "x"}', b"[]"])
def test_a_damaged_file_is_said_to_be_damaged(tmp_path: Path, content: bytes) -> None:
    path = comparisons.save(tmp_path, compared())
    path.write_bytes(content)

    with pytest.raises(ToolError, match="cannot be read"):
        comparisons.load(tmp_path, compared().id)


def test_a_renamed_file_is_not_taken_for_another_comparison(tmp_path: Path) -> None:
    comparisons.save(tmp_path, compared(number=1)).rename(tmp_path / "comparisons" / "20261130-135299-zzzzzzzz.json")

    with pytest.raises(ToolError, match="says that it is"):
        comparisons.load(tmp_path, "20261130-135299-zzzzzzzz")


def test_a_newer_hotkernels_comparison_is_not_guessed_at(tmp_path: Path) -> None:
    comparisons.save(tmp_path, compared(schema=99))

    with pytest.raises(ToolError, match="newer hotkernel"):
        comparisons.load(tmp_path, compared().id)
