"""How a verify ends when it is cancelled, killed or cannot write: a clear error, no process left, no half file, a free lock."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import filelock
import psutil
import pytest
from verifying import BASELINE, FASTER, SAME, Workshop, candidate, is_running

from hotkernel.errors import ToolError
from hotkernel.machine.process import Cancelled
from hotkernel.records import comparisons
from hotkernel.schema.verdict import VerdictKind
from hotkernel.tools.card_lock import card_held
from hotkernel.tools.speed import verify

SOURCES = Path(__file__).parents[2] / "src"
WRONG = candidate("return torch.sin(x) * (w + 0.5)")
# A child, and a grandchild in a session of its own: as much of a family as stays in its tree.
WITH_FAMILY = SAME + """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        os.setsid()
    while True:
        time.sleep(60)
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    shop = Workshop(tmp_path_factory.mktemp("shop"))
    yield shop
    shop.close()


@pytest.fixture(autouse=True, scope="module")
def lock_of_our_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Temporary files, and so the card's lock, where nobody else waits: nothing here depends on a time."""
    folder = str(tmp_path_factory.mktemp("tmp"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr("tempfile.tempdir", folder)
        yield


def is_measuring(message: str) -> bool:
    return message.startswith("measuring: pair")


def halves_in(state: Path) -> list[Path]:
    """Files that were begun and not finished."""
    return [path for path in state.rglob("*.tmp") if "caches" not in path.parts]


def folder_of_locks() -> Path:
    return Path(tempfile.gettempdir()) / "hotkernel-locks"


def is_taken(lock: filelock.FileLock) -> bool:
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        return True
    lock.release()
    return False


# Cancelled ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["measuring: pair 1", "building", "starting the user"])
def test_a_cancelled_verify_leaves_no_process_and_a_free_lock(shop, where):
    source = f"{WITH_FAMILY}# {where}\n"  # not built before
    session, thread, came = shop.in_thread(source, lambda message: message.startswith(where))
    began = time.monotonic()
    session.job.cancel()
    thread.join(10)

    assert len(came) == 1
    assert isinstance(came[0], Cancelled)
    assert shop.is_quiet_within(3 - (time.monotonic() - began)), shop.left_running()
    with card_held(shop.session()) as waited_s:
        assert waited_s < 1
    assert halves_in(shop.state) == []


def test_the_session_still_judges_after_a_cancelled_verify(shop):
    assert shop.verify(WRONG).verdict is VerdictKind.INCORRECT


def test_a_verify_that_waits_for_another_can_be_cancelled(shop):
    with card_held(shop.session()):
        session, thread, came = shop.in_thread(FASTER, lambda message: message.startswith("another hotkernel times here"))
        session.job.cancel()
        thread.join(5)

    assert isinstance(came[0], Cancelled)


def test_a_server_keeps_one_referee_for_its_next_verify_and_who_calls_once_keeps_none(shop):
    shop.verify(WRONG)
    assert shop.nursery._referee is None
    shop.nursery.is_served = True
    try:
        shop.verify(WRONG)
        waiting = shop.nursery._referee
        assert waiting is not None
        assert shop.verify(WRONG).verdict is VerdictKind.INCORRECT
        assert waiting.process.poll() is not None  # it was this one's
        assert shop.nursery._referee is not waiting
    finally:
        shop.nursery.is_served = False
        shop.verify(WRONG)


def test_who_waits_for_the_card_gets_it_before_who_had_it_and_comes_back_at_once(shop):
    order: list[str] = []

    def come(name: str) -> None:
        with card_held(shop.session()):
            order.append(name)

    waits = threading.Thread(target=come, args=("waited",))
    with card_held(shop.session()):
        waits.start()
        turn = filelock.FileLock(next(folder_of_locks().glob("*.next")))
        deadline = time.monotonic() + 20
        while not is_taken(turn) and time.monotonic() < deadline:
            time.sleep(0.01)  # the turn is free meanwhile
    come("back at once")
    waits.join(10)

    assert order == ["waited", "back at once"]


def test_a_cancelled_verify_saved_nothing_and_counts_as_no_try(shop):
    before = (comparisons.newest(shop.state, 1000), shop.verify(WRONG).tries)
    session, thread, _ = shop.in_thread(candidate("return torch.sin(x) * w * 1"), is_measuring)
    session.job.cancel()
    thread.join(10)

    assert len(comparisons.newest(shop.state, 1000)) == len(before[0]) + 1
    assert shop.verify(WRONG).tries == before[1]


# Killed ---------------------------------------------------------------------------------------------------------------

CALLER = """
import json, sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from dataclasses import replace
from verifying import Workshop
from hotkernel.tools.speed import verify
shop = Workshop(Path(sys.argv[3]))
def say(message, done=None, total=None):
    print(json.dumps({"at_s": time.monotonic(), "said": message}), flush=True)
try:
    answer = verify(replace(shop.session(), progress=say), sys.argv[4], "twist_baseline.py", n=3)
    print(json.dumps({"verdict": answer.verdict, "held_s": answer.seconds["verify"]}), flush=True)
finally:
    shop.close()
"""


@contextlib.contextmanager
def caller(folder: Path, source: str, number: int = 0) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that verifies `source`; what it says are JSON lines."""
    folder.mkdir(exist_ok=True)
    file = folder / f"candidate-{number}" / "twist_candidate.py"
    file.parent.mkdir(exist_ok=True)
    file.write_text(source, encoding="utf-8")
    with subprocess.Popen([sys.executable, "-c", CALLER, str(SOURCES), str(Path(__file__).parent), str(folder), str(file)],
                          stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], begins: str) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line).get("said", "").startswith(begins):
            return
    pytest.fail(f"it never came to {begins!r}")


def all_below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def are_gone_within(processes: list[psutil.Process], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while any(is_running(p) for p in processes) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not any(is_running(p) for p in processes)


def test_after_sigkill_of_the_caller_no_process_is_left(tmp_path):
    with caller(tmp_path, WITH_FAMILY) as process:
        wait_for(process, "measuring: pair 1")
        below = all_below(process.pid)
        assert len(below) >= 6  # the referee, the zygote, the oracle, two workers and the candidate's family
        process.send_signal(signal.SIGKILL)

        assert are_gone_within(below, 5), [p for p in below if is_running(p)]


def test_after_sigkill_of_the_referee_the_answer_is_an_error_and_no_process_is_left(shop):
    session, thread, came = shop.in_thread(WITH_FAMILY, is_measuring)
    referee = next(p for p in shop.left_running() if "hotkernel.referee" in p.cmdline())
    referee.kill()
    thread.join(10)

    assert session.job.is_cancelled is False
    assert isinstance(came[0], ToolError)
    assert "the referee ended without an answer" in came[0].message
    assert shop.is_quiet_within(3)


MOMENTS_S = (0.0, 0.02, 0.05, 0.1, 0.2, 0.4)  # whatever it does then


@pytest.mark.parametrize("after_s", MOMENTS_S)
@pytest.mark.parametrize("begins", ["building", "measuring: pair 1"])
def test_after_sigkill_of_the_zygote_the_answer_is_an_error_and_no_process_is_left(shop, begins, after_s):
    source = WITH_FAMILY + f"# killed zygote, {begins}, {after_s}\n"  # not built before
    _, thread, came = shop.in_thread(source, lambda message: message.startswith(begins))
    zygote = shop.nursery._zygote
    assert zygote is not None
    below = all_below(zygote.pid)
    time.sleep(after_s)
    os.kill(zygote.pid, signal.SIGKILL)
    thread.join(20)

    assert isinstance(came[0], ToolError), came  # it blames no side, and is no bug
    assert came[0].fix
    assert are_gone_within(below, 5)


def test_the_verify_after_a_killed_zygote_starts_another(shop):
    killed = shop.nursery._zygote
    if killed is not None:
        with contextlib.suppress(ProcessLookupError):  # a test before this one did it
            os.kill(killed.pid, signal.SIGKILL)

    assert shop.verify(WRONG).verdict is VerdictKind.INCORRECT
    assert shop.nursery._zygote is not killed


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_in_a_terminal_ends_everything_and_says_so(tmp_path, number):
    shop = Workshop(tmp_path)
    shop.write("c/twist_candidate.py", WITH_FAMILY)
    command = [sys.executable, "-m", "hotkernel.cli", "verify", "c/twist_candidate.py", "twist_baseline.py", "--n", "3"]
    with subprocess.Popen(command, cwd=tmp_path, env={**shop.environment, "PYTHONPATH": str(SOURCES)}, text=True,
                          stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stderr is not None
        assert any(line.startswith("measuring") for line in process.stderr)
        below = all_below(process.pid)
        process.send_signal(number)
        said = process.communicate(timeout=10)[1]

    assert process.returncode == 128 + number
    assert "stopped; nothing is left running" in said
    assert are_gone_within(below, 3)


# Two at once ----------------------------------------------------------------------------------------------------------


def test_two_verifies_of_two_processes_do_not_overlap_in_time(tmp_path):
    spans = []
    with caller(tmp_path / "a", candidate("return torch.sin(x) * w"), 1) as one, \
            caller(tmp_path / "b", candidate("return torch.cos(x) * w"), 2) as other:
        for process in (one, other):
            assert process.stdout is not None
            said = [json.loads(line) for line in process.communicate(timeout=120)[0].splitlines()]
            began_s = next(entry["at_s"] for entry in said if entry["said"].startswith("starting"))
            spans.append((began_s, began_s + said[-1]["held_s"]))

    (_, first_ends), (second_begins, _) = sorted(spans)
    assert first_ends <= second_begins


def test_two_verifies_of_one_session_do_not_overlap_either(shop):
    spans: list[tuple[float, float]] = []

    def work(number: int) -> None:
        session = shop.session()
        file = shop.write(f"at_once_{number}/twist_candidate.py", candidate(f"return torch.sin(x) * (w + {number + 1})"))

        def say(message: str, done: int | None = None, total: int | None = None) -> None:
            if message.startswith("starting"):
                began.append(time.monotonic())

        session.progress, began = say, []
        answer = verify(session, str(file), "twist_baseline.py", n=3)
        spans.append((began[0], began[0] + answer.seconds["verify"]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert len(spans) == 3
    assert all(end <= begin for (_, end), (begin, _) in itertools.pairwise(sorted(spans)))


# What is missing or full ----------------------------------------------------------------------------------------------


def test_an_interpreter_without_torch_is_an_error_that_says_what_to_set(shop, tmp_path):
    bare = tmp_path / "python"
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n', encoding="utf-8")
    bare.chmod(0o755)
    shop.write("c.py", FASTER)
    with pytest.raises(ToolError, match="cannot import torch") as refusal:
        verify(shop.session(HOTKERNEL_PYTHON=str(bare)), "c.py", "twist_baseline.py")

    assert "HOTKERNEL_PYTHON" in refusal.value.fix


def test_no_python_with_torch_at_all_is_an_error_that_says_what_to_set(shop, monkeypatch):
    shop.write("c.py", FASTER)
    monkeypatch.setattr(sys, "executable", "/nowhere/python3")
    with pytest.raises(ToolError, match="no Python with torch was found") as refusal:
        verify(shop.session(HOTKERNEL_PYTHON="", PATH="/nowhere"), "c.py", "twist_baseline.py")

    assert "HOTKERNEL_PYTHON" in refusal.value.fix


def refused(shop: Workshop, state: Path) -> ToolError:
    file = shop.write("refused/twist_candidate.py", WRONG)
    with pytest.raises(ToolError) as refusal:
        verify(shop.session(HOTKERNEL_STATE_DIR=str(state)), str(file), "twist_baseline.py", n=3)
    return refusal.value


def test_a_state_folder_that_cannot_be_made_is_an_error_that_names_it(shop, tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    error = refused(shop, tmp_path / "file" / "state")

    assert str(tmp_path / "file") in error.message
    assert error.fix
    assert shop.is_quiet_within(3)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_state_folder_without_permission_is_an_error_that_names_it(shop, tmp_path):
    (tmp_path / "state").mkdir(mode=0o500)
    error = refused(shop, tmp_path / "state")

    assert str(tmp_path / "state") in error.message
    assert "permission" in (error.message + error.fix)


def test_a_state_folder_that_the_system_owns_is_an_error_that_names_it(shop):
    error = refused(shop, Path("/proc/hotkernel-state"))

    assert "/proc/hotkernel-state" in error.message
    assert error.fix


def test_no_folder_for_temporary_files_is_an_error_that_says_what_to_set(shop, monkeypatch):
    file = shop.write("c.py", WRONG)
    monkeypatch.setattr("tempfile.tempdir", "/proc/nowhere")
    with pytest.raises(ToolError, match="no folder for temporary files") as refusal:
        verify(shop.session(), str(file), "twist_baseline.py")

    assert "TMPDIR" in refusal.value.fix


def test_what_a_candidate_leaves_behind_that_cannot_be_removed_costs_no_verdict(shop):
    stubborn = "for n in range(3):\n    os.makedirs('a/b%d/c' % n); os.chmod('a/b%d' % n, 0)\nos.chmod('a', 0)"

    assert shop.verify(candidate("return torch.sin(x) * (w + 0.5)", head=stubborn)).verdict is VerdictKind.INCORRECT


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own with hardly any room; needs the right to mount one."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(disk)], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("no right to mount a small disk here")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_a_full_disk_is_an_error_and_leaves_no_half_file(shop, small_disk):
    free = os.statvfs(small_disk)
    (small_disk / "ballast").write_bytes(bytes(free.f_bavail * free.f_frsize))
    error = refused(shop, small_disk / "state")

    assert "No space left" in str(error) or "disk is full" in str(error)
    assert not list((small_disk / "state").rglob("*.json"))
    assert halves_in(small_disk) == []


LIMITED = """
import resource, signal, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (%d, %d))
from hotkernel import cli
sys.exit(cli.main(sys.argv[1:]))
"""
ROOM_BYTES = 8 << 20  # for the slots in shared memory; what is saved holds the candidate's text twice over


@pytest.mark.parametrize(("text_bytes", "says"), [(ROOM_BYTES - 1000, "comparisons"), (ROOM_BYTES + 1000, "source")],
                         ids=["the comparison", "the snapshot"])
def test_a_file_that_does_not_fit_is_an_error_and_leaves_no_half_file(tmp_path, text_bytes, says):
    shop = Workshop(tmp_path)
    shop.write("c/twist_candidate.py", f"{WRONG}# {'x' * (text_bytes - len(WRONG) - 3)}\n")
    command = [sys.executable, "-c", LIMITED % (ROOM_BYTES, ROOM_BYTES), "verify", "c/twist_candidate.py", "twist_baseline.py"]
    done = subprocess.run(command, cwd=tmp_path, env={**shop.environment, "PYTHONPATH": str(SOURCES)}, text=True,
                          capture_output=True, timeout=60, check=False)

    assert done.returncode == 1, done.stderr
    assert "error: " in done.stderr
    assert "fix: make room" in done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(shop.state.glob("comparisons/*"))
    assert halves_in(shop.state) == []


def test_a_baseline_that_cannot_be_read_is_an_error(shop):
    folder = shop.folder / "folder_baseline.py"
    folder.mkdir()
    shop.write("c.py", FASTER)
    with pytest.raises(ToolError, match="is no file but a folder"):
        verify(shop.session(), "c.py", str(folder))


def test_the_target_of_another_folder_is_judged_from_any_working_root(shop, tmp_path):
    (tmp_path / "twist_baseline.py").write_text(BASELINE, encoding="utf-8")

    assert shop.verify(WRONG, str(tmp_path / "twist_baseline.py")).verdict is VerdictKind.INCORRECT
