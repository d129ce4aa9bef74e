"""A session on a folder, and stand-ins for programs that do what the real ones do when they fail."""

from __future__ import annotations

import sys
from pathlib import Path

from hotkernel.session import Session

SOURCES = Path(__file__).parents[2] / "src"
REPORTS = Path(__file__).parents[1] / "fixtures" / "profilers"
BASELINE = """
import torch
from hotkernel_contract import Target, time_and_print
def twice_baseline(x):
    return torch.mul(x, 2)
TARGET = Target(name="twice", function=twice_baseline, inputs={"x": "64x64"}, dtype="fp32", device="cpu", iters=5)
"""
CANDIDATE = """
from hotkernel_contract import time_and_print
from twice_baseline import TARGET, torch
def twice_candidate(x):
    return torch.add(x, x)
if __name__ == "__main__":
    time_and_print(TARGET, twice_candidate, "candidate")
"""


def session(folder: Path, **environment: str) -> Session:
    known = {
        "HOTKERNEL_PYTHON": sys.executable,
        "PATH": "/usr/bin:/bin",
        "HOME": str(folder),
        "PYTHONPATH": str(SOURCES),
    }
    return Session(root=folder, environment={**known, **environment})


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def executable(path: Path, body: str) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def stand_in(folder: Path, name: str, body: str) -> Session:
    """A session whose `name` notes how it is called and then runs `body`; the version beats any that is installed."""
    bin_folder = folder / "bin"
    bin_folder.mkdir(exist_ok=True)
    executable(
        bin_folder / name,
        f"""
case "$1" in --version) echo "version 9999.1"; exit 0;; esac
for word in "$@"; do echo "$word"; done >> "{folder}/called"; echo "capture=$HOTKERNEL_CAPTURE" >> "{folder}/called"
for word in "$@"; do case "$word" in --output=*) out="${{word#--output=}}";; esac; done
{body}""",
    )
    write(folder / "script.py", "print('hello')\n")
    return session(folder, PATH=f"{bin_folder}:/usr/bin:/bin")


def called(folder: Path) -> list[str]:
    return (folder / "called").read_text(encoding="utf-8").splitlines()
