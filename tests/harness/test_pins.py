"""The files a target stands on are known by their content; one that changed is named."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from hotkernel.harness.pins import GONE, changed_pins, hash_file, pins_of


@pytest.fixture
def baseline(tmp_path: Path) -> Path:
    file = tmp_path / "t_baseline.py"
    file.write_text("TARGET = ...\n", encoding="utf-8")
    return file


def test_a_pin_is_the_files_sha256(baseline):
    assert hash_file(baseline) == hashlib.sha256(b"TARGET = ...\n").hexdigest()


def test_a_file_that_is_gone_is_said_to_be(tmp_path):
    assert hash_file(tmp_path / "nowhere.py") == GONE


def test_the_baseline_is_pinned_beside_what_it_loaded(baseline):
    assert pins_of({"/a/mykernels.py": "11"}, baseline) == {str(baseline): hash_file(baseline), "/a/mykernels.py": "11"}


def test_equal_pins_have_not_changed():
    assert changed_pins({"/a/t.py": "1", "/a/k.py": "2"}, {"/a/k.py": "2", "/a/t.py": "1"}) == []


@pytest.mark.parametrize(("now", "changed"), [
    ({"/a/t.py": "1", "/a/k.py": "9"}, ["/a/k.py"]),
    ({"/a/t.py": "1"}, ["/a/k.py"]),
    ({"/a/t.py": "1", "/a/k.py": "2", "/a/new.py": "3"}, ["/a/new.py"]),
    ({"/a/t.py": "8", "/a/k.py": "9"}, ["/a/k.py", "/a/t.py"]),
    ({"/a/t.py": "1", "/a/k.py": GONE}, ["/a/k.py"]),
])
def test_what_changed_came_or_went_is_named(now, changed):
    assert changed_pins({"/a/t.py": "1", "/a/k.py": "2"}, now) == changed


def test_two_files_of_one_name_are_held_apart():
    known = {"/a/t.py": "1", "/a/one/__init__.py": "2", "/a/two/__init__.py": "3"}

    assert changed_pins(known, dict(known)) == []
    assert changed_pins(known, {**known, "/a/one/__init__.py": "9"}) == ["/a/one/__init__.py"]
    assert len(changed_pins(known, {**known, "/a/one/__init__.py": "3", "/a/two/__init__.py": "2"})) == 2


def test_nothing_has_changed_where_nothing_was_known():
    assert changed_pins({}, {"/a/t.py": "1"}) == []
