"""Claims about pins: they are kept by the baseline's path, stay when they are there, and a damaged file is none."""

from __future__ import annotations

from pathlib import Path

from hotkernel.records import pins

BEFORE, AFTER = {"/a/base.py": "0" * 64}, {"/a/base.py": "1" * 64}


def test_pins_stay_until_the_target_is_made_anew(tmp_path: Path) -> None:
    baseline = tmp_path / "x_baseline.py"

    pins.save(tmp_path, baseline, BEFORE)
    pins.save(tmp_path, baseline, AFTER)
    assert pins.load(tmp_path, baseline) == BEFORE
    pins.save(tmp_path, baseline, AFTER, replace=True)
    assert pins.load(tmp_path, baseline) == AFTER


def test_two_baselines_are_pinned_apart_and_one_can_be_forgotten(tmp_path: Path) -> None:
    first, second = tmp_path / "a" / "x_baseline.py", tmp_path / "b" / "x_baseline.py"
    pins.save(tmp_path, first, BEFORE)
    pins.save(tmp_path, second, AFTER)

    pins.forget(tmp_path, first)

    assert (pins.load(tmp_path, first), pins.load(tmp_path, second)) == ({}, AFTER)


def test_a_damaged_file_of_pins_counts_as_none(tmp_path: Path) -> None:
    baseline = tmp_path / "x_baseline.py"
    pins.save(tmp_path, baseline, BEFORE)
    pins.pin_file(tmp_path, baseline).write_text("{", encoding="utf-8")

    assert pins.load(tmp_path, baseline) == {}
