"""Claims about bench: what a script's line may be, and that each way to fail has its own words."""

from __future__ import annotations

import statistics
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from hotkernel.errors import ToolError
from hotkernel.harness.scripts import ScriptFault
from hotkernel.machine.process import Cancelled, Job
from hotkernel.session import Session
from hotkernel.tools.bench import bench
from hotkernel.tools.card_lock import card_held

# Prints 1, 2, 3 … ms, one more each time it runs.
COUNTING = """
import json, pathlib
seen = pathlib.Path("seen")
number = int(seen.read_text()) + 1 if seen.exists() else 1
seen.write_text(str(number))
print(json.dumps({"ms": float(number), "ok": True, "min_bytes": 100, "flops": 2.5, "dtype": "torch.bfloat16"}))
"""


def environment(folder: Path) -> dict[str, str]:
    return {"HOTKERNEL_PYTHON": sys.executable, "PATH": "/usr/bin:/bin", "HOTKERNEL_STATE_DIR": str(folder / "state")}


def session(folder: Path) -> Session:
    return Session(root=folder, environment=environment(folder))


def written(folder: Path, text: str) -> str:
    (folder / "script.py").write_text(text, encoding="utf-8")
    return "script.py"


def fault(folder: Path, text: str, timeout: float = 60.0) -> ScriptFault:
    """What bench says of a script that gives no time."""
    with pytest.raises(ScriptFault) as caught:
        bench(session(folder), written(folder, text), n=1, warmup=0, timeout=timeout)
    return caught.value


def test_every_sample_is_there_after_the_warm_up_and_its_summary_is_right(tmp_path: Path) -> None:
    result = bench(session(tmp_path), written(tmp_path, COUNTING), n=4, warmup=2)

    assert result.samples_ms == (3.0, 4.0, 5.0, 6.0)
    assert (result.n, result.warmup) == (4, 2)
    assert (result.mean_ms, result.median_ms, result.min_ms, result.max_ms) == (4.5, 4.5, 3.0, 6.0)
    assert result.std_ms == pytest.approx(statistics.stdev([3, 4, 5, 6]))
    assert result.all_ok is True
    assert result.cmd == (sys.executable, str(tmp_path / "script.py"))
    assert [sample["ms"] for sample in result.samples] == [3.0, 4.0, 5.0, 6.0]
    assert result.roofline_inputs == {"min_bytes": 100.0, "flops": 2.5}
    assert result.dtype == "torch.bfloat16"
    assert result.warnings == ()


def test_one_run_has_no_deviation_rather_than_one_of_nought(tmp_path: Path) -> None:
    result = bench(session(tmp_path), written(tmp_path, "print('{\"ms\": 1.5}')"), n=1, warmup=0)

    assert (result.std_ms, result.all_ok, result.mean_ms) == (None, None, 1.5)


def test_arguments_and_folder_reach_the_script_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    written(
        tmp_path / "sub", 'import json, os, sys; print(json.dumps({"ms": 1, "argv": sys.argv[1:], "cwd": os.getcwd()}))'
    )

    result = bench(session(tmp_path), "script.py", n=1, warmup=0, cwd="sub", args=["--n", "a b", "$HOME;ls"])

    assert result.samples == ({"ms": 1, "argv": ["--n", "a b", "$HOME;ls"], "cwd": str(tmp_path / "sub")},)
    assert result.cmd[2:] == ("--n", "a b", "$HOME;ls")


def test_other_lines_and_progress_bars_around_the_line_are_no_matter(tmp_path: Path) -> None:
    text = r"""
print("hello"); print('{"not": "it"}'); print("10 %\r100 %\r" + '{"ms": 2.0, "ok": true}'); print("bye")
"""
    result = bench(session(tmp_path), written(tmp_path, text), n=1, warmup=0)

    assert result.samples == ({"ms": 2.0, "ok": True},)
    assert result.warnings == ("the script prints more after its JSON line; that was ignored",)


def test_a_line_that_says_not_ok_is_a_result_even_with_exit_status_1(tmp_path: Path) -> None:
    text = 'import sys; print(\'{"ms": 2.0, "ok": false, "why": "off by one"}\'); sys.exit(1)'

    result = bench(session(tmp_path), written(tmp_path, text), n=2, warmup=0)

    assert result.all_ok is False
    assert result.warnings == ("2 of 2 runs say ok: false (off by one)",)


@pytest.mark.parametrize(
    ("rule", "text", "words"),
    [
        ("no_line", "print('done')", "ended well and printed no JSON line"),
        ("no_line", "", "ended well and printed no JSON line"),
        ("no_line", "print('{\"ok\": true}')", "no JSON line"),
        ("no_line", "print('[{\"ms\": 1}]')", "no JSON line"),
        ("bad_line", "print('{\"ms\": 1.0} and more')", "begins as JSON and is none"),
        ("bad_line", "print('{\"ms\": ' + '[' * 100000)", "begins as JSON and is none"),
        ("bad_line", "print('{\"ms\": ' + '9' * 9000 + '}')", "begins as JSON and is none"),
        ("two_lines", 'print(\'{"ms": 1.0}\\n{"ms": 0.1}\')', "printed 2 lines"),
        ("exit_status", "raise RuntimeError('no such kernel')", "ended with status 1 and printed no JSON line"),
        ("exit_status", 'import sys; print(\'{"ms": 1.0, "ok": true}\'); sys.exit(3)', "status 3 after its JSON line"),
        ("killed_by_signal", "import os; os.kill(os.getpid(), 11)", "killed by SIGSEGV"),
        (
            "killed_by_signal",
            "import os; print('{\"ms\": 1}', flush=True); os.kill(os.getpid(), 9)",
            "killed by SIGKILL",
        ),
        ("bad_ms", "print('{\"ms\": NaN}')", "no finite number"),
        ("bad_ms", "print('{\"ms\": Infinity}')", "no finite number"),
        ("bad_ms", "print('{\"ms\": 1e999}')", "no finite number"),
        ("bad_ms", "print('{\"ms\": ' + '9' * 400 + '}')", "no finite number"),
        ("bad_ms", "print('{\"ms\": null}')", "no finite number"),
        ("bad_ms", 'print(\'{"ms": "3"}\')', "no finite number"),
        ("bad_ms", "print('{\"ms\": true}')", "no finite number"),
        ("bad_ms", "print('{\"ms\": -1.0}')", "above 0"),
        ("bad_ms", "print('{\"ms\": 0}')", "above 0"),
        ("bad_ms", "print('{\"ms\": 1e12}')", "longer than the 60 s"),
        ("bad_ok", 'print(\'{"ms": 1, "ok": "yes"}\')', "neither true nor false"),
    ],
)
def test_a_script_that_gives_no_time_is_told_why(tmp_path: Path, rule: str, text: str, words: str) -> None:
    caught = fault(tmp_path, text)

    assert caught.rule == rule
    assert words in caught.message
    assert caught.fix
    assert len(caught.detail) < 5000


def test_what_a_failed_script_said_last_is_shown(tmp_path: Path) -> None:
    assert "RuntimeError: no such kernel" in fault(tmp_path, "raise RuntimeError('no such kernel')").detail


def test_a_script_that_hangs_is_stopped_and_what_it_said_is_shown(tmp_path: Path) -> None:
    caught = fault(tmp_path, "print('waiting', flush=True)\nimport time; time.sleep(100)", timeout=1.0)

    assert caught.rule == "timeout"
    assert "within 1 s" in caught.message
    assert "waiting" in caught.detail


def test_a_script_that_forks_and_prints_twice_is_not_believed(tmp_path: Path) -> None:
    text = "import os, sys\nsys.stdout.write('{\"ms\": 1.0}\\n')\nif os.fork(): os.wait()"

    assert fault(tmp_path, text).rule == "two_lines"


def test_a_child_that_outlives_its_script_is_ended_with_it(tmp_path: Path) -> None:
    text = """
import os, time
if os.fork() == 0:
    time.sleep(100)
    os._exit(0)
print('{"ms": 1.0}')
"""
    assert bench(session(tmp_path), written(tmp_path, text), n=2, warmup=0).samples_ms == (1.0, 1.0)


def test_a_flood_of_output_is_bounded_and_no_time_is_lost(tmp_path: Path) -> None:
    one_long = 'import json; print(json.dumps({"ms": 1.0, "log": "x" * 100000}))'
    many = 'import json; print(json.dumps({"ms": 1.0, "log": "x" * 1900}))'

    long = bench(session(tmp_path), written(tmp_path, one_long), n=2, warmup=0)
    all_of_them = bench(session(tmp_path), written(tmp_path, many), n=12, warmup=0)

    assert (long.samples, long.truncated) == (({"ms": 1.0, "ok": None},) * 2, True)
    assert (len(all_of_them.samples), len(all_of_them.samples_ms), all_of_them.truncated) == (10, 12, True)


def test_odd_bytes_and_roofline_words_that_are_no_numbers_are_null(tmp_path: Path) -> None:
    text = r"""
import os
os.write(1, b'\xff\xfe junk\n')
print('{"ms": 1.0, "flops": "many", "roofline_inputs": {"bytes": 5, "x": NaN}, "dtype": 7}')
"""
    result = bench(session(tmp_path), written(tmp_path, text), n=1, warmup=0)

    assert result.roofline_inputs == {"bytes": 5.0, "x": None, "flops": None}
    assert result.dtype is None


@pytest.mark.parametrize(
    "given",
    [{"n": 0}, {"n": -1}, {"n": 10**9}, {"warmup": -1}, {"timeout": 0}, {"timeout": float("nan")}, {"cwd": "nowhere"}],
)
def test_counts_times_and_folders_that_make_no_sense_are_refused_before_anything_runs(
    tmp_path: Path, given: dict[str, object]
) -> None:
    with pytest.raises(ToolError):
        bench(session(tmp_path), written(tmp_path, COUNTING), **given)  # type: ignore[arg-type]
    assert not (tmp_path / "seen").exists()


def test_a_script_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ToolError, match=r"no such file: .*nothing\.py"):
        bench(session(tmp_path), "nothing.py")


def test_progress_counts_up_and_a_cancel_ends_the_run(tmp_path: Path) -> None:
    job, told = Job(), []

    def progress(message: str, done: int | None = None, total: int | None = None) -> None:
        told.append((message, done, total))
        if done == 2:
            job.cancel()

    asked = Session(root=tmp_path, environment=session(tmp_path).environment, progress=progress, job=job)
    with pytest.raises(Cancelled):
        bench(asked, written(tmp_path, COUNTING), n=5, warmup=1)

    assert told == [("warm-up 1 of 1", 0, 6), ("run 1 of 5", 1, 6), ("run 2 of 5", 2, 6)]


# Fails where another run of it is under way.
ALONE = """
import os, time
os.close(os.open("busy", os.O_CREAT | os.O_EXCL))
time.sleep(0.05)
os.unlink("busy")
print('{"ms": 1.0}')
"""


def test_two_benches_never_overlap_and_the_second_says_how_long_it_waited(tmp_path: Path) -> None:
    written(tmp_path, ALONE)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: bench(session(tmp_path), "script.py", n=3, warmup=0), range(2), timeout=60))

    assert [result.samples_ms for result in results] == [(1.0,) * 3] * 2
    assert max(result.waited_for_gpu_s or 0.0 for result in results) > 0.1


def test_a_cancel_while_it_waits_for_the_card_ends_the_wait(tmp_path: Path) -> None:
    waiting = session(tmp_path)
    waiting.job.cancel()
    with card_held(session(tmp_path)), pytest.raises(Cancelled):
        bench(waiting, written(tmp_path, COUNTING))

    assert not (tmp_path / "seen").exists()
