"""Claims about record and history: the numbers are verify's own, nothing is kept twice, the board is always right."""

from __future__ import annotations

import dataclasses
import json
import multiprocessing
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hotkernel.errors import ToolError
from hotkernel.records import comparisons
from hotkernel.schema.comparison import Comparison, Source
from hotkernel.schema.plain import to_plain
from hotkernel.schema.record import Decision, RecordResult
from hotkernel.schema.verdict import Measurement, VerdictKind
from hotkernel.session import Session
from hotkernel.tools.history import history, show
from hotkernel.tools.records import record


def session(folder: Path) -> Session:
    environment = {"HOTKERNEL_STATE_DIR": str(folder / "state"), "PATH": os.environ["PATH"], "HOME": str(folder)}
    (folder / "work").mkdir(exist_ok=True)
    return Session(root=folder / "work", environment=environment)


def saved(folder: Path, number: int = 0, speedup: float = 1.5, **given: Any) -> Comparison:
    """A comparison that verify has saved."""
    values: dict[str, Any] = {
        "id": f"20261130-13{number:04d}-a1b2c3d4",
        "target": "rms",
        "verdict": VerdictKind.FASTER,
        "reason": "it is faster",
        "speedup": speedup,
        "baseline": Measurement(7, 0.054, 0.001, 0.053, 0.055, 0.054, (0.053, 0.054, 0.055)),
        "candidate": Measurement(7, 0.036, 0.001, 0.035, 0.037, 0.036, (0.035, 0.036, 0.037)),
        "timestamp": "2026-11-30T13:52:14+00:00",
        "protocol": 4,
        "device": "cuda",
        "assurance": "process",
        "interval_99": (speedup - 0.01, speedup + 0.01),
        "gpu": "NVIDIA H200",
        "gpu_uuid": "GPU-1",
        "power_limit_w": 700.0,
        "sources": {"candidate": Source("rms_candidate.py", f"{number:064d}", f"# try {number}\n")},
    }
    comparison = Comparison(**{**values, **given})
    comparisons.save(folder / "state", comparison)
    return comparison


def keep(folder: Path, comparison: Comparison, **given: Any) -> RecordResult:
    return record(session(folder), "rms", comparison.id, **given)


def board(folder: Path) -> str:
    return (folder / "work" / "LEADERBOARD.md").read_text(encoding="utf-8")


def test_a_record_is_a_log_a_copy_of_the_candidate_and_a_row(tmp_path: Path) -> None:
    result = keep(tmp_path, saved(tmp_path), note="one pass", who="ada")

    log = json.loads(Path(result.log).read_text(encoding="utf-8"))
    assert Path(result.log).parent == tmp_path / "work/results/rms"
    assert (log["note"], log["who"], log["comparison"]["speedup"]) == ("one pass", "ada", 1.5)
    assert Path(str(result.candidate_copy)).read_text(encoding="utf-8") == "# try 0\n"
    assert Path(result.leaderboard) == tmp_path / "work/LEADERBOARD.md"
    assert result.row in board(tmp_path).splitlines()
    assert (result.keep, result.decision) == (True, Decision.KEEP)
    assert result.advice == "keep: it is faster than the baseline, and nothing is kept yet"


def test_the_whole_result_its_json_and_its_id_are_one_and_the_same(tmp_path: Path) -> None:
    whole = to_plain(saved(tmp_path))

    first = record(session(tmp_path), "rms", whole)
    again = [
        record(session(tmp_path), "rms", each)
        for each in (json.dumps(whole), f"  {whole['id']}\n", {"id": whole["id"]})
    ]

    assert [each.log for each in again] == [first.log] * 3
    assert (first.existed, [each.existed for each in again]) == (False, [True] * 3)
    assert len(list((tmp_path / "work/results/rms").glob("*.json"))) == 1


def test_the_callers_numbers_are_not_believed(tmp_path: Path) -> None:
    forged = {**to_plain(saved(tmp_path, verdict=VerdictKind.SLOWER, speedup=0.8)), "verdict": "faster", "speedup": 9.0}

    result = record(session(tmp_path), "rms", forged)

    assert (result.verdict, result.speedup, result.keep) == (VerdictKind.SLOWER, 0.8, False)
    assert "no gain" in result.row
    assert "9.0" not in board(tmp_path)
    assert "the result given differs" in result.warnings[0]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"verdict": "faster", "speedup": 2.0}, "has no id"),
        ({}, "has no id"),
        ({"id": 5}, "has no id"),
        ({"status": "running", "job": "j1"}, "has no id"),
        ("", "has no id"),
        ("{", "no JSON"),
        ('{"a": ' * 100_000, "no JSON"),
        ("20261130-135214-zzzzzzzz", "no comparison 20261130"),
        ("../../x", "no comparison has an id like"),
        ({"id": "a/b"}, "no comparison has an id like"),
        ("[1]", "no comparison has an id like"),
    ],
)
def test_what_is_no_saved_result_is_refused_and_nothing_is_written(tmp_path: Path, given: Any, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        record(session(tmp_path), "rms", given)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.parametrize("target", ["", "a b", "a/b", "..", "-x", "profiles", "a|b", "a\nb"])
def test_a_bad_targets_name_is_refused_and_nothing_is_written(tmp_path: Path, target: str) -> None:
    comparison = saved(tmp_path)

    with pytest.raises(ToolError):
        record(session(tmp_path), target, comparison.id)
    assert list((tmp_path / "work").iterdir()) == []


def test_an_older_protocols_comparison_is_not_recorded(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="measured by protocol 3"):
        keep(tmp_path, saved(tmp_path, protocol=3))


def test_a_result_recorded_before_is_not_counted_again_under_another_target(tmp_path: Path) -> None:
    comparison = saved(tmp_path)
    first = keep(tmp_path, comparison)

    second = record(session(tmp_path), "softmax", comparison.id)

    assert second.log == first.log
    assert "recorded before, as rms" in second.warnings[0]
    assert not (tmp_path / "work/results/softmax").exists()


def test_a_result_measured_as_another_target_says_so_on_the_board(tmp_path: Path) -> None:
    result = record(session(tmp_path), "hard", saved(tmp_path, target="easy").id)

    assert "hard (measured as easy)" in result.row
    assert any("measured as easy" in warning for warning in result.warnings)


def test_a_script_pair_goes_below_the_verified_rows_and_is_no_runs_best(tmp_path: Path) -> None:
    scripts = keep(tmp_path, saved(tmp_path, 1, 9.0, assurance="self_reported", self_reported=True))
    verified = keep(tmp_path, saved(tmp_path, 2, 1.1))

    above, below = board(tmp_path).split("## Self-reported")
    assert verified.row in above
    assert scripts.row in below
    assert (verified.keep, verified.best_id) == (True, None)
    assert any("not counted as verified" in warning for warning in scripts.warnings)


def test_keep_equal_revert_and_stop_follow_the_run(tmp_path: Path) -> None:
    speedups = (1.5, 1.505, 1.6, 1.2, 1.3, 1.4)

    results = [keep(tmp_path, saved(tmp_path, number, speedup)) for number, speedup in enumerate(speedups)]

    assert [each.decision for each in results] == ["keep", "equal", "keep", "revert", "revert", "revert"]
    assert [each.stop for each in results] == [False] * 5 + [True]
    assert [each.best_speedup for each in results] == [None, 1.5, 1.5, 1.6, 1.6, 1.6]
    assert [each.equivalent_to_best for each in results] == [False, True, False, False, False, False]
    assert results[3].previous_best_log == Path(results[2].log).relative_to(tmp_path / "work").as_posix()
    assert [each.rows for each in results] == [1, 2, 3, 4, 5, 6]
    assert results[-1].advice.endswith("Stop: 3 changes in a row did not beat the best")


def test_an_old_record_asked_for_again_gets_the_advice_of_its_time(tmp_path: Path) -> None:
    first = saved(tmp_path, 1, 1.2)
    told = keep(tmp_path, first)
    keep(tmp_path, saved(tmp_path, 2, 1.9))

    assert keep(tmp_path, first).advice == told.advice


def test_broken_and_foreign_json_is_named_in_the_answer_and_costs_nothing(tmp_path: Path) -> None:
    folder = session(tmp_path).root / "results" / "rms"
    folder.mkdir(parents=True)
    for number in range(30):
        (folder / f"x\u202e{number:02d}.json").write_text("{", encoding="utf-8")

    result = keep(tmp_path, saved(tmp_path))

    assert result.row in board(tmp_path)
    assert (len(result.skipped), result.skipped_total) == (20, 30)
    assert result.skipped[0].path == "results/rms/x00.json"


def test_notes_and_names_are_one_clean_short_line_in_the_log_too(tmp_path: Path) -> None:
    result = keep(tmp_path, saved(tmp_path), note="a\n| b\u202e\x1b[31m " + "x" * 1000, who="w" * 1000)

    log = json.loads(Path(result.log).read_text(encoding="utf-8"))
    assert log["note"].startswith("a | b[31m xxx")
    assert (len(log["note"]), len(log["who"])) == (300, 80)


def test_the_commit_is_that_of_the_checkout_and_null_where_there_is_none(tmp_path: Path) -> None:
    bare = keep(tmp_path, saved(tmp_path, 1))
    work = session(tmp_path).root
    for command in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"],
    ):
        subprocess.run(["git", *command], cwd=work, check=True, timeout=30)
    head = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=work, check=True, timeout=30, capture_output=True, text=True
    ).stdout

    committed = keep(tmp_path, saved(tmp_path, 2))

    assert json.loads(Path(bare.log).read_text(encoding="utf-8"))["commit"] is None
    assert json.loads(Path(committed.log).read_text(encoding="utf-8"))["commit"] == head.strip()
    assert f"| {head[:11]}… |" in committed.row


def test_a_machine_without_git_records_all_the_same(tmp_path: Path) -> None:
    bare = session(tmp_path)
    bare.environment = {**bare.environment, "PATH": "/nowhere"}

    assert record(bare, "rms", saved(tmp_path).id).keep


def test_records_go_below_cwd(tmp_path: Path) -> None:
    comparison = saved(tmp_path)
    asked = session(tmp_path)
    (asked.root / "sub").mkdir()

    assert record(asked, "rms", comparison.id, cwd="sub").leaderboard == str(asked.root / "sub/LEADERBOARD.md")
    assert history(asked, cwd="sub").total == 1
    assert history(asked).total == 0
    with pytest.raises(ToolError, match="no such folder"):
        record(asked, "rms", comparison.id, cwd="nowhere")


def record_some(folder: Path, numbers: list[int]) -> None:
    for number in numbers:
        record(session(folder), "rms", f"20261130-13{number:04d}-a1b2c3d4", note=f"try {number}")


def test_two_processes_that_record_at_once_are_both_on_the_board_and_leave_no_half_file(tmp_path: Path) -> None:
    session(tmp_path)
    for number in range(10):
        saved(tmp_path, number, 1.5 + number)
    # Both record number 4: the same result must still be one row.
    context = multiprocessing.get_context("spawn")
    writers = [
        context.Process(target=record_some, args=(tmp_path, numbers))
        for numbers in ([0, 1, 2, 3, 4], [4, 5, 6, 7, 8, 9])
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)

    assert [writer.exitcode for writer in writers] == [0, 0]
    assert all(board(tmp_path).count(f"[try {number}](") == 1 for number in range(10))
    names = [path.name for path in (tmp_path / "work").rglob("*") if path.is_file()]
    assert len(names) == 1 + 10 + 10  # the board, the logs, the copies
    assert not [name for name in names if name.endswith(".tmp")]


LIMITED = """
import resource, sys
from pathlib import Path
from hotkernel.errors import ToolError
from hotkernel.session import Session
from hotkernel.tools.records import record
root, state, name, limit = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), int(limit)))
try:
    record(Session(root=Path(root), environment={"HOTKERNEL_STATE_DIR": state, "PATH": "/nowhere"}), "rms", name)
    print("recorded")
except ToolError as error:
    print(error)
"""


def record_limited(folder: Path, comparison: Comparison, limit: int) -> str:
    command = [
        sys.executable,
        "-c",
        LIMITED,
        str(session(folder).root),
        str(folder / "state"),
        comparison.id,
        str(limit),
    ]
    source = str(Path(__file__).parents[2] / "src")
    return subprocess.run(
        command, check=True, timeout=60, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": source}
    ).stdout


def test_a_disk_that_is_full_for_the_log_leaves_no_trace_and_the_next_call_works(tmp_path: Path) -> None:
    comparison = saved(tmp_path)

    answer = record_limited(tmp_path, comparison, 1000)

    assert "was not written" in answer
    assert [path for path in (tmp_path / "work").rglob("*") if path.is_file()] == []
    assert keep(tmp_path, comparison).existed is False


def test_a_disk_that_is_full_for_the_board_says_that_the_record_is_kept(tmp_path: Path) -> None:
    for number in range(30):
        keep(tmp_path, saved(tmp_path, number))
    before = board(tmp_path)
    comparison = saved(tmp_path, 99)

    answer = record_limited(tmp_path, comparison, len(before) - 500)

    assert "the record is kept as results/rms/" in answer
    assert "record the same id again" in answer
    assert board(tmp_path) == before
    assert keep(tmp_path, comparison).existed is True
    assert board(tmp_path).count("\n| rms |") == 31


def test_history_is_the_newest_first_and_bounded(tmp_path: Path) -> None:
    for number in range(55):
        keep(tmp_path, saved(tmp_path, number, 1.5), note=f"try {number}")
    record(session(tmp_path), "softmax", saved(tmp_path, 60, 1.2, target="softmax").id)

    one, every = history(session(tmp_path), "rms"), history(session(tmp_path))

    assert [entry.note for entry in one.entries] == [f"try {number}" for number in reversed(range(5, 55))]
    assert (one.total, one.truncated, one.targets) == (55, True, ("rms", "softmax"))
    assert (every.total, every.entries[0].target) == (56, "softmax")
    assert [entry.decision for entry in every.entries[:2]] == ["keep", "equal"]
    assert (tmp_path / "work" / str(one.entries[-1].candidate_copy)).exists()


def test_the_history_of_what_was_never_tried_says_so(tmp_path: Path) -> None:
    answer = history(session(tmp_path), "rms")

    assert (answer.entries, answer.total, answer.truncated) == ((), 0, False)
    assert "nothing is recorded of rms" in answer.warnings[0]
    with pytest.raises(ToolError):
        history(session(tmp_path), "../x")


def test_every_answer_can_be_said_in_json(tmp_path: Path) -> None:
    result = keep(tmp_path, saved(tmp_path))
    keys = set(to_plain(result))

    assert {"log", "leaderboard", "row", "keep", "advice"} <= keys
    assert {
        "speedup_cell",
        "candidate_mean_ms",
        "improved_on_best",
        "equivalent_to_best",
        "rows",
        "superseded_rows",
    } <= keys
    assert json.loads(json.dumps(to_plain(history(session(tmp_path)))))["total"] == 1
    assert dataclasses.is_dataclass(result)


def test_why_a_row_won_is_added_later_once_and_told_with_its_date(tmp_path: Path) -> None:
    comparison = saved(tmp_path)
    plain = {"against": "a.ncu-rep", "kernel": "rms", "device": None, "speedup": 2.0, "why": "it reads x once",
             "kernels_before": 2, "kernels_after": 1, "one_of_each_before_us": None, "one_of_each_after_us": None,
             "changes": [], "stalls": []}
    log = Path(keep(tmp_path, comparison).log)
    before = log.read_bytes()
    added, again, other = (keep(tmp_path, comparison, why=each) for each in (plain, plain, {**plain, "why": "luck"}))
    told = show(session(tmp_path), "rms").why

    assert log.read_bytes() == before
    assert told is not None
    assert re.fullmatch(r"it reads x once \(added 20\d\d-\d\d-\d\d\)", told)
    assert [each.existed for each in (added, again, other)] == [True] * 3
    assert "stands beside it" in added.warnings[-1]
    assert not any("why" in warning for warning in again.warnings)
    assert "keeps it" in other.warnings[-1]
