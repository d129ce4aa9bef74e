"""The terminal's door as a person meets it: real processes, their output and exit status."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hotkernel import __version__

SAMPLE_CLI = Path(__file__).with_name("sample_cli.py")
HEAVY = {"mcp", "pydantic", "rich", "torch", "psutil", "pynvml", "matplotlib", "numpy", "anyio", "filelock"}


def run(*argv: str, timeout_s: float = 30) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SAMPLE_CLI, *argv], capture_output=True, text=True, encoding="utf-8",
                          timeout=timeout_s, check=False)


def hotkernel(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-P", "-m", "hotkernel.cli", *argv], capture_output=True, text=True,
                          encoding="utf-8", timeout=30, check=False)


@pytest.mark.parametrize("argv", [["--help"], ["--version"], ["roofline", "--help"], ["verify", "--help"]])
def test_03_help_loads_nothing_heavy(argv: list[str]) -> None:
    code = (f"import sys; sys.argv = ['hotkernel', *{argv!r}]\nfrom hotkernel.cli import main\n"
            "try: main()\nexcept SystemExit: pass\n"
            "print('MODULES', *{name.partition('.')[0] for name in sys.modules})")
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, encoding="utf-8",
                              timeout=30, check=True)
    loaded = set(finished.stdout.rpartition("MODULES")[2].split())
    assert not loaded & HEAVY


def test_python_starts_the_package_as_a_program() -> None:
    asked = subprocess.run([sys.executable, "-P", "-m", "hotkernel", "--version"], capture_output=True, text=True,
                           encoding="utf-8", timeout=30, check=False)
    assert asked.stdout.strip() == f"hotkernel {__version__}"


def test_the_version_is_the_packages() -> None:
    assert hotkernel("--version").stdout.strip() == f"hotkernel {__version__}"


def test_a_tools_own_words_are_its_help() -> None:
    told = run("echo", "--help").stdout
    assert "50 % of the words are here." in told
    assert "how often (default: 5)" in told
    assert "--from TEXT" in told


def test_json_is_the_whole_result_and_readable_text_is_the_default() -> None:
    plain = json.loads(run("echo", "hi", "--json").stdout)
    assert plain["mean_ms"] == 1.23456789
    assert plain["rows"][1]["share_pct"] is None
    told = run("echo", "hi").stdout
    assert "mean_ms: 1.2346" in told
    assert "rms_kernel<float>" in told


@pytest.mark.parametrize(
    ("verdict", "status"), [("faster", 0), ("inconclusive", 10), ("slower", 11), ("incorrect", 12), ("invalid", 13)]
)
def test_the_exit_status_is_the_verdict(verdict: str, status: int) -> None:
    assert run("verify", verdict).returncode == status


def test_a_requirement_is_met_or_the_status_says_what_it_is_instead() -> None:
    unmet, met = run("verify", "slower", "--require", "not-slower"), run("verify", "faster", "--require", "faster")

    assert (unmet.returncode, unmet.stderr) == (11, "required not-slower: not met, it is slower\n")
    assert (met.returncode, met.stderr) == (0, "required faster: met\n")
    assert run("verify", "faster", "--require", "quicker").returncode == 2
    assert run("echo", "hi", "--require", "faster").returncode == 2  # verify's alone


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal")
@pytest.mark.parametrize("no_colour", [False, True])
def test_colours_are_for_a_terminal_that_wants_them(no_colour: bool) -> None:
    ours, theirs = os.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **({"NO_COLOR": "1"} if no_colour else {})}
    try:
        subprocess.run([sys.executable, SAMPLE_CLI, "verify", "faster"], stdout=theirs, stderr=subprocess.DEVNULL,
                       env=environment, timeout=30, check=True)
        shown = read_until(ours, b"faster\x1b[0m", 2)
    finally:
        os.close(ours)
        os.close(theirs)
    assert (b"\x1b[1;32mfaster" in shown) != no_colour
    assert b"\x1b[" not in run("verify", "faster").stdout.encode()


def test_an_error_says_what_happened_and_what_to_do() -> None:
    finished = run("refuse")
    assert finished.returncode == 1
    assert finished.stdout == ""
    assert finished.stderr == ("looked in /opt/nvidia\n"  # what to do is said last: a long detail would push it off the screen
                               "error: nsys is not on this machine\n  fix: install Nsight Systems\n")


@pytest.mark.parametrize("argv", [["echo"], ["ecko"], ["echo", "hi", "--nn", "3"], ["echo", "--", "x"], ["--nope"]])
def test_wrong_usage_ends_with_2(argv: list[str]) -> None:
    finished = run(*argv)
    assert finished.returncode == 2
    assert finished.stderr.startswith("error: ")
    assert "Traceback" not in finished.stderr


def test_a_misspelt_command_gets_a_suggestion() -> None:
    assert "did you mean 'echo'?" in run("ecko").stderr


def test_37_a_hostile_name_reaches_the_terminal_as_plain_text() -> None:
    told = run("hostile").stdout
    assert "evilkernel<AAAA" in told
    assert not [sign for sign in told if ord(sign) < 32 and sign != "\n"]
    assert "\u202e" not in told


def test_progress_goes_to_standard_error_alone() -> None:
    finished = run("wait", "--timeout", "1")
    assert finished.stderr.startswith("waiting 0/1\n")
    assert "waiting" not in finished.stdout


def test_a_reader_that_leaves_early_is_no_error() -> None:
    finished = subprocess.run(["sh", "-c", f"{sys.executable} {SAMPLE_CLI} echo hi | head -n 1"],
                              capture_output=True, text=True, encoding="utf-8", timeout=30, check=True)
    assert "Traceback" not in finished.stderr


def test_a_crash_keeps_its_traceback() -> None:
    finished = run("crash")
    assert finished.returncode == 1
    assert "RuntimeError" in finished.stderr


def processes_of(marker: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if marker in (entry / "cmdline").read_text(encoding="utf-8", errors="replace"):
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def wait_until(condition: object, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():  # type: ignore[operator]
            return True
        time.sleep(0.02)
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
@pytest.mark.parametrize("escape", [[], ["--escape"]], ids=["child", "setsid grandchild"])
def test_26_to_29_no_child_outlives_an_interrupted_terminal(number: int, status: int, escape: list[str]) -> None:
    seconds = 1000 + os.getpid() % 1000 + number / 100 + len(escape) / 7
    process = subprocess.Popen([sys.executable, SAMPLE_CLI, "wait", "--timeout", str(seconds), *escape],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
    marker = f"time.sleep({seconds!r})"
    try:
        assert wait_until(lambda: processes_of(marker), 10)
        process.send_signal(number)
        assert process.wait(10) == status
        assert wait_until(lambda: not processes_of(marker), 5)
    finally:
        process.kill()
        process.communicate()


def read_until(descriptor: int, wanted: bytes, timeout_s: float = 20) -> bytes:
    """What a terminal shows, up to `wanted`."""
    shown, deadline = b"", time.monotonic() + timeout_s
    while wanted not in shown and time.monotonic() < deadline:
        if select.select([descriptor], [], [], 0.2)[0]:
            shown += os.read(descriptor, 4096)
    return shown


@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal")
def test_progress_on_a_terminal_is_a_bar_that_says_what_runs_and_leaves_nothing() -> None:
    shown = on_a_terminal("wait", "--timeout", "2.2")

    assert b"waiting" in shown
    assert b"2/2" in shown
    assert shown.count(b"\n") <= 1
    assert shown.endswith(b"\x1b[?25h\r\x1b[1A\x1b[2K")  # the cursor is shown again, and the line erased


def on_a_terminal(*argv: str) -> bytes:
    """What standard error shows on a terminal until the command ends."""
    ours, theirs = os.openpty()
    process = subprocess.Popen([sys.executable, SAMPLE_CLI, *argv], stderr=theirs, stdout=subprocess.DEVNULL,
                               env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "80"})
    shown = b""
    try:
        while process.poll() is None or select.select([ours], [], [], 0)[0]:
            if select.select([ours], [], [], 0.1)[0]:
                shown += os.read(ours, 4096)
    finally:
        process.kill()
        process.wait(10)
        os.close(ours)
        os.close(theirs)
    return shown


@pytest.mark.parametrize("after_s", [0.0, 0.05, 0.1, 0.2, 0.4, 0.8])
@pytest.mark.skipif(sys.platform == "win32", reason="a pseudo-terminal")
def test_a_person_who_types_nothing_is_told_what_happens_and_can_stop_it_at_any_moment(after_s: float) -> None:
    ours, theirs = os.openpty()
    process = subprocess.Popen([sys.executable, "-P", "-m", "hotkernel.cli"], stdin=theirs, stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE)
    try:
        assert process.stderr is not None
        assert b"hotkernel --help" in process.stderr.readline()
        time.sleep(after_s)  # in an import, which may swallow an exception, or while it serves
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
    finally:
        process.kill()
        process.communicate()
        os.close(ours)
        os.close(theirs)
