"""Claims about the logs under results/: written whole, never over another, and read whatever lies beside them."""

from __future__ import annotations

import json
import os
import resource
from pathlib import Path

import pytest
from record_makers import compared, in_a_child, recorded, self_reported

from hotkernel.errors import ToolError
from hotkernel.records import store
from hotkernel.schema.comparison import Source


def test_a_record_comes_back_with_the_candidate_in_the_log_and_beside_it(tmp_path: Path) -> None:
    logged = store.write(tmp_path, recorded(compared(source="def candidate(x): ...\n"), note="one pass"))

    assert logged.log == "results/rms/20261130-140000.json"
    assert store.read(tmp_path).records == (logged,)
    plain = json.loads((tmp_path / logged.log).read_text(encoding="utf-8"))
    assert plain["schema"] == 1
    assert plain["comparison"]["sources"]["candidate"]["text"] == "def candidate(x): ...\n"
    assert plain["candidate_file"] == "20261130-140000.candidate.py"
    assert (tmp_path / "results/rms/20261130-140000.candidate.py").read_text(
        encoding="utf-8"
    ) == "def candidate(x): ...\n"


def test_records_of_one_second_get_names_of_their_own_and_keep_their_order(tmp_path: Path) -> None:
    logs = [store.write(tmp_path, recorded(compared(number=number), note=str(number))).log for number in range(3)]

    assert logs == [
        "results/rms/20261130-140000.json",
        "results/rms/20261130-140000-2.json",
        "results/rms/20261130-140000-3.json",
    ]
    assert len(store.read(tmp_path).records) == 3
    assert len(list((tmp_path / "results/rms").glob("*.candidate.py"))) == 3


def test_a_copy_that_somebody_left_is_not_overwritten_either(tmp_path: Path) -> None:
    left = tmp_path / "results/rms/20261130-140000.candidate.py"
    left.parent.mkdir(parents=True)
    left.write_text("mine", encoding="utf-8")

    assert store.write(tmp_path, recorded(compared())).log == "results/rms/20261130-140000-2.json"
    assert left.read_text(encoding="utf-8") == "mine"


def test_a_log_that_stands_there_without_a_copy_is_not_overwritten_and_no_copy_is_left(tmp_path: Path) -> None:
    left = tmp_path / "results/rms/20261130-140000.json"
    left.parent.mkdir(parents=True)
    left.write_text("mine", encoding="utf-8")

    store.write(tmp_path, recorded(compared()))

    assert left.read_text(encoding="utf-8") == "mine"
    assert sorted(path.name for path in left.parent.iterdir()) == [
        "20261130-140000-2.candidate.py",
        "20261130-140000-2.json",
        "20261130-140000.json",
    ]


def test_the_candidates_bytes_survive_whatever_they_are(tmp_path: Path) -> None:
    content = b"# \xff\x00 caf\xc3\xa9\r\n"
    source = Source("rms_candidate.cu", "c" * 64, content.decode("utf-8", "surrogateescape"))

    logged = store.write(tmp_path, recorded(compared(sources={"candidate": source})))

    assert (tmp_path / "results/rms/20261130-140000.candidate.cu").read_bytes() == content
    assert store.read(tmp_path).records == (logged,)


@pytest.mark.parametrize(
    ("name", "suffix"), [("kernel.json", ".json"), ("k.p/y", ".txt"), ("k", ".txt"), ("k.py|x", ".txt")]
)
def test_a_copy_is_never_taken_for_a_log_nor_given_an_odd_name(tmp_path: Path, name: str, suffix: str) -> None:
    source = Source(name, "c" * 64, "{}")

    store.write(tmp_path, recorded(compared(sources={"candidate": source})))

    assert (tmp_path / f"results/rms/20261130-140000.candidate{suffix}").exists()
    shelf = store.read(tmp_path)
    assert (len(shelf.records), shelf.skipped) == (1, ())


def test_a_disk_that_fills_at_the_log_leaves_neither_log_nor_copy(tmp_path: Path) -> None:
    record = recorded(compared(source="x = 1\n", reason="r" * 10_000))

    answer = in_a_child(
        lambda: str(store.write(tmp_path, record)),
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )

    assert answer.startswith("ToolError")
    assert "was not written" in answer
    assert list((tmp_path / "results/rms").iterdir()) == []


@pytest.mark.parametrize(
    "name",
    [
        "",
        "a b",
        "a/b",
        "..",
        ".",
        "../x",
        "-rf",
        "a..b",
        ".hidden",
        "a.",
        "a\n",
        "a\0",
        "é",
        "x" * 65,
        "con",
        "NUL.txt",
        "profiles",
        "superseded-x",
        "a|b",
        "~",
        "C:x",
    ],
)
def test_a_bad_targets_name_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    with pytest.raises(ToolError):
        store.check_target(name)


@pytest.mark.parametrize("name", ["rms", "rms-4096x8192", "v1.2_softmax", "_x", "Console", "9"])
def test_a_plain_targets_name_is_accepted(name: str) -> None:
    assert store.check_target(name) == name


def test_a_target_folder_that_links_out_of_results_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "results").mkdir()
    (tmp_path / "results/rms").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ToolError, match="leads out of"):
        store.write(tmp_path, recorded(compared()))
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_foreign_and_broken_json_is_named_and_costs_no_record(tmp_path: Path) -> None:
    good = store.write(tmp_path, recorded(compared()))
    folder = tmp_path / "results/rms"
    text = (tmp_path / good.log).read_text(encoding="utf-8")
    bad = {
        "a-empty.json": "",
        "b-half.json": text[: len(text) // 2],
        "c-list.json": "[]",
        "d-foreign.json": '{"name": "x"}',
        "e-newer.json": text.replace('"schema": 1', '"schema": 9'),
        "f-verdict.json": text.replace('"faster"', '"fastest"'),
        "g-no-times.json": text.replace('"speedup": 1.5', '"speedup": null'),
        "h-nan.json": text.replace("1.5", "NaN"),
        "i-other-target.json": text.replace('"target": "rms"', '"target": "softmax"', 1),
        "j-huge.json": text.replace('"mean_ms": 0.054', '"mean_ms": 1' + "0" * 400),
        "k-result-alone.json": '{"verdict": "faster", "speedup": 2.0}',
    }
    for name, content in bad.items():
        (folder / name).write_text(content, encoding="utf-8")
    (tmp_path / "results/stray.json").write_text(text, encoding="utf-8")
    os.mkfifo(folder / "l-pipe.json")

    shelf = store.read(tmp_path)

    assert shelf.records == (good,)
    assert [each.path for each in shelf.skipped] == [
        "results/stray.json",
        *(f"results/rms/{name}" for name in bad),
        "results/rms/l-pipe.json",
    ]
    assert all(each.reason for each in shelf.skipped)


def test_profiles_hidden_files_and_folders_below_a_target_are_no_records(tmp_path: Path) -> None:
    for name in (
        "results/profiles/report.json",
        "results/rms/ncu/report.json",
        "results/rms/.tmp.json",
        "results/.x/y.json",
        "results/rms/notes.txt",
        "results/odd name/x.json",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{", encoding="utf-8")

    assert store.read(tmp_path) == store.Shelf()


def test_no_results_at_all_is_an_empty_shelf(tmp_path: Path) -> None:
    assert store.read(tmp_path) == store.Shelf()


# A log of the original system: its keys, with made-up figures.
ORIGINAL = {
    "target": "rms",
    "note": "the original's",
    "who": "bo",
    "commit": "abc1234",
    "recorded_at": "20250601-100000",
    "verify": {
        "verdict": "faster",
        "speedup": 1.7,
        "baseline": {"n": 7, "mean_ms": 0.06},
        "candidate": {"n": 7, "mean_ms": 0.035},
        "timestamp": "2025-06-01T10:00:00+0200",
        "contract": {"protocol": 3},
    },
}


def test_superseded_logs_of_any_form_are_listed_apart(tmp_path: Path) -> None:
    ours = store.write(tmp_path, recorded(compared(number=1), note="ours"))
    older = tmp_path / "results/rms/superseded-protocol-3"
    older.mkdir()
    (tmp_path / ours.log).rename(older / "a.json")
    (older / "b.json").write_text(json.dumps(ORIGINAL), encoding="utf-8")
    (older / "c.json").write_text("{}", encoding="utf-8")
    (older / "d.json").write_text("{", encoding="utf-8")

    shelf = store.read(tmp_path)

    assert shelf.records == ()
    assert [
        (each.target, each.reason, each.verdict, each.speedup, each.note, each.who) for each in shelf.superseded
    ] == [
        ("rms", "protocol-3", "faster", 1.5, "ours", "ada"),
        ("rms", "protocol-3", "faster", 1.7, "the original's", "bo"),
        ("rms", "protocol-3", None, None, "", ""),
    ]
    assert [each.path for each in shelf.skipped] == ["results/rms/superseded-protocol-3/d.json"]


def test_a_verified_log_of_another_protocol_never_counts_even_where_nobody_moved_it(tmp_path: Path) -> None:
    store.write(tmp_path, recorded(compared(number=1, protocol=3)))
    scripts = store.write(tmp_path, recorded(self_reported(number=2, protocol=3)))

    shelf = store.read(tmp_path)

    assert shelf.records == (scripts,)
    assert [(each.reason, each.target) for each in shelf.superseded] == [("protocol 3", "rms")]


def test_the_originals_logs_are_listed_apart_where_they_lie(tmp_path: Path) -> None:
    (tmp_path / "results/rms").mkdir(parents=True)
    for name, contract in (("a.json", {"protocol": 3}), ("b.json", {})):
        log = {**ORIGINAL, "verify": {**ORIGINAL["verify"], "contract": contract}}  # type: ignore[dict-item]
        (tmp_path / "results/rms" / name).write_text(json.dumps(log), encoding="utf-8")

    shelf = store.read(tmp_path)

    assert (shelf.records, shelf.skipped) == ((), ())
    assert [(each.target, each.reason, each.speedup) for each in shelf.superseded] == [
        ("rms", "protocol 3", 1.7),
        ("rms", "protocol unknown", 1.7),
    ]
    assert (shelf.superseded[0].baseline_ms, shelf.superseded[0].timestamp[:10]) == (0.06, "2025-06-01")
