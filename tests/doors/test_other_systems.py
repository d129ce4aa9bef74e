"""Where a system has no fork and no groups of processes, the doors open all the same; Windows is played by taking them away."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What the standard library of Windows has not. psutil and mcp need some of it on Linux, so only their importers are not tried.
BARE = """
import os, signal, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios", "pty"):
    sys.modules[name] = None
for name in ("fork", "killpg", "getpgid", "setsid", "getuid", "geteuid", "getloadavg", "sched_getaffinity"):
    delattr(os, name)
for name in ("SIGKILL", "SIGSTOP", "SIGCONT", "SIGHUP", "SIGCHLD", "setitimer", "pthread_sigmask"):
    delattr(signal, name)
"""
JOB = BARE + """
import tempfile  # after what it cannot have
from hotkernel.machine.process import Job
from hotkernel.errors import ToolError
job = Job()
print(job.run([sys.executable, "-c", "print('ran')"], timeout_s=60).stdout.strip())
try:
    job.run([sys.executable, "-c", "import time; time.sleep(600)"], timeout_s=0.5)
except ToolError as error:
    print("ended" if not job._alive else "left", "did not end" in error.message)
"""


def run(script: str, *argv: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOTKERNEL_STATE_DIR": str(cwd / "state")}
    return subprocess.run([sys.executable, "-c", script, *argv], cwd=cwd, env=environment, capture_output=True, text=True,
                          timeout=60, check=False)


@pytest.mark.parametrize(("line", "said"), [
    ("--help", "verify"), ("roofline --gpu h200 --bytes 1e9", "attainable_ms"), ("gpu-info", "platform"), ("history", "total: 0"),
    ("install --client vscode", "servers")])
def test_a_tool_that_starts_nothing_works(line: str, said: str, tmp_path: Path) -> None:
    done = run(f"{BARE}\nfrom hotkernel import cli\nsys.exit(cli.main(sys.argv[1:]))", *line.split(), cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert said in done.stdout


def test_a_process_is_run_and_ended(tmp_path: Path) -> None:
    done = run(JOB, cwd=tmp_path)

    assert done.stdout.splitlines() == ["ran", "ended True"], done.stderr
