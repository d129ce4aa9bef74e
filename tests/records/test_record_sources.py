"""Claims about a record's sources: only what is as it was measured is shown, and what cannot be seen is named."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from record_makers import compared, recorded

from hotkernel.records import sources
from hotkernel.schema.comparison import Comparison, Source

CONTRACT = "from mykernels import rms as baseline\nfrom hotkernel_contract import Target\nTARGET = Target()\n"
OWN = "def rms(x):\n    return x\n"


def measured(base: Path, **files: str) -> Comparison:
    """A comparison whose baseline loaded these files, which lie in `base`."""
    for name, text in files.items():
        (base / f"{name}.py").write_text(text, encoding="utf-8")
    pins = {f"{name}.py": hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    return compared(pins=pins, sources={"baseline": Source("rms_baseline.py", pins["rms_baseline.py"]),
                                        "candidate": Source("c.py", "x", "def candidate(x):\n    return x\n")})


def test_the_baselines_source_is_the_users_own_file_behind_the_contract(tmp_path):
    record = recorded(measured(tmp_path, rms_baseline=CONTRACT, mykernels=OWN))

    assert sources.baseline_text(tmp_path, record) == OWN
    assert sources.library_function(tmp_path, record) is None


def test_a_library_function_has_no_source_and_is_named(tmp_path):
    record = recorded(measured(tmp_path, rms_baseline="from torch import mv as baseline\nTARGET = 1\n"))

    assert sources.baseline_text(tmp_path, record) is None
    assert sources.library_function(tmp_path, record) == "from torch import mv as baseline"


def test_a_function_in_the_contracts_own_file_is_the_source(tmp_path):
    text = "def rms(x):\n    return x\nTARGET = 1\n"

    assert sources.baseline_text(tmp_path, recorded(measured(tmp_path, rms_baseline=text))) == text


def test_a_file_that_has_changed_since_is_not_shown_unless_the_record_kept_it(tmp_path):
    found = measured(tmp_path, rms_baseline=CONTRACT, mykernels=OWN)
    kept = replace(recorded(found), baseline_files=sources.baseline_files(tmp_path, found))
    (tmp_path / "mykernels.py").write_text("def rms(x):\n    return 0\n", encoding="utf-8")
    (tmp_path / "rms_baseline.py").unlink()

    assert sources.baseline_files(tmp_path, found) == {}
    assert sources.baseline_text(tmp_path, recorded(found)) is None
    assert sources.baseline_text(tmp_path, kept) == OWN


def test_a_diff_counts_its_lines_and_is_cut_at_a_whole_line():
    whole = sources.change("a", "x\ny\n", "b", "x\nz\nw\n", limit=10_000)
    cut = sources.change("a", "", "b", "line\n" * 100, limit=100)

    assert (whole.added, whole.removed, whole.note) == (2, 1, "")
    assert whole.text == "--- a\n+++ b\n@@ -1,2 +1,3 @@\n x\n-y\n+z\n+w"
    assert cut.text.endswith("\n+line")
    assert cut.added == 100
    assert "cut" in cut.note


def test_a_missing_source_and_an_equal_one_are_said():
    assert "the source of a" in sources.change("a", None, "b", "x", limit=9).note
    assert sources.change("a", "x", "b", "x", limit=9).note == "the two are the same, line by line"


def test_what_cannot_be_seen_is_named():
    assert sources.visible("a\u202eb\x1b[0m\tc\r\nd\x00é") == "a⟨U+202E⟩b⟨U+001B⟩[0m\tc\nd⟨U+0000⟩é"
