"""A target on the CPU with candidates for it, and a session to verify them in; every verdict is recomputed from its evidence."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from hotkernel.harness.zygote import Nursery
from hotkernel.judge.verdict import decide
from hotkernel.machine.process import Job
from hotkernel.records import comparisons
from hotkernel.records.state import state_dir
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.plain import from_plain, to_plain
from hotkernel.schema.verdict import VerdictKind
from hotkernel.session import Session
from hotkernel.tools.speed import verify

BUSY_SHARE = 0.05  # of batches that waited for a core
LOOKS = 3  # pairs at most: what is to be told apart here differs by far
BASELINE = """
import torch
from hotkernel_contract import Target

def twist(x, w):
    for _ in range(6):
        y = torch.sin(x) * w
    return y

TARGET = Target(name="twist", function=twist, inputs={"x": "64x1024", "w": "1024"}, dtype="fp32", device="cpu")
"""
SAME = """
import torch

def twist_candidate(x, w):
    for _ in range(6):
        y = torch.sin(x) * w
    return y
"""
FASTER = "import torch\n\ndef twist_candidate(x, w):\n    return torch.sin(x) * w\n"


def candidate(*body: str, head: str = "") -> str:
    """A candidate file with this function body."""
    lines = "\n".join("    " + line for line in body)
    return f"import os, signal, sys, time\nimport torch\n{head}\ncalls = 0\ndef twist_candidate(x, w):\n{lines}\n"


def in_call(*lines: str, nth: int = 5) -> str:
    """A candidate that behaves until its `nth` call, and then does this."""
    return candidate("global calls", "calls += 1", f"if calls == {nth}:", *("    " + line for line in lines),
                     "return torch.sin(x) * w")


class Workshop:
    """A folder with the target, a state folder of its own, and one warm Python for all verifies."""

    def __init__(self, folder: Path, nursery: Nursery | None = None) -> None:
        self.before = {process.pid for process in psutil.Process().children(recursive=True)}
        self.folder, self.state = folder, folder / "state"
        self.nursery = nursery or Nursery()
        self.environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "HOTKERNEL_PYTHON": sys.executable,
                            "HOTKERNEL_STATE_DIR": str(self.state), "TMPDIR": tempfile.gettempdir()}
        self.baseline = self.write("twist_baseline.py", BASELINE)
        self.said: list[str] = []

    def write(self, name: str, text: str) -> Path:
        file = self.folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def session(self, **environment: str) -> Session:
        def say(message: str, done: int | None = None, total: int | None = None) -> None:
            self.said.append(message)

        return Session(root=self.folder, environment={**self.environment, **environment}, progress=say, job=Job(),
                       nursery=self.nursery)

    def verify(self, source: str, baseline: str = "twist_baseline.py", *, timeout: float = 120,
               incumbent: str = "", looks: int = LOOKS) -> Comparison:
        """The verdict on this candidate, which its own evidence must bear out."""
        # a folder for each: what is snapshotted and cached is a candidate with its neighbours
        file = self.write(f"candidates/{abs(hash(source)):x}/twist_candidate.py", source)
        answer = verify(self.session(), str(file), baseline, n=looks, timeout=timeout, incumbent=incumbent)
        refuse_other_verdict(answer, state_dir(self.environment))
        return answer

    def timed(self, source: str, baseline: str = "twist_baseline.py", *, incumbent: str = "") -> Comparison:
        """The same where times matter: more looks, asked again (it is one test), and skipped where the machine is too busy."""
        for _ in range(2):
            answer = self.verify(source, baseline, incumbent=incumbent, looks=LOOKS + 2)
            if answer.verdict is not VerdictKind.INCONCLUSIVE:
                return answer
        if self.is_busy(answer):
            pytest.skip(f"this machine is too busy to time anything: {answer.reason}")
        return answer

    def is_busy(self, answer: Comparison) -> bool:
        """Whether the cores were shared so often that times say little."""
        saved = comparisons.load(self.state, answer.id).evidence
        voids = [batch for batch in saved.batches if batch.void] if saved else []
        return len(voids) > BUSY_SHARE * len(saved.batches if saved else [])

    def in_thread(self, source: str, is_so: Callable[[str], bool]) -> tuple[Session, threading.Thread, list[object]]:
        """A verify that has come to where its progress `is_so`; its session, its thread and what came of it."""
        file = self.write("candidates/thread/twist_candidate.py", source)
        session, reached, came = self.session(), threading.Event(), []

        def say(message: str, done: int | None = None, total: int | None = None) -> None:
            if is_so(message):
                reached.set()

        session = replace(session, progress=say)

        def work() -> None:
            try:
                came.append(verify(session, str(file), "twist_baseline.py", n=LOOKS))
            except BaseException as error:  # noqa: BLE001 - handed to the test, which looks at it
                came.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        assert reached.wait(60), came
        return session, thread, came

    def left_running(self) -> list[psutil.Process]:
        """What runs below this process beside the warm zygote and a referee that waits for the next verify."""
        warm = {self.nursery._zygote.process.pid, self.nursery._zygote.pid} if self.nursery._zygote else set()
        warm |= {self.nursery._referee.process.pid} if self.nursery._referee else set()
        known = warm | self.before  # other tests' helpers live on: multiprocessing's tracker, for one
        return [p for p in psutil.Process().children(recursive=True) if p.pid not in known and is_running(p)]

    def is_quiet_within(self, seconds: float) -> bool:
        """Whether all of it has ended after so long; a process that was killed takes a moment."""
        deadline = time.monotonic() + seconds
        while self.left_running() and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.left_running() == []

    def close(self) -> None:
        self.nursery.close()


def is_running(process: psutil.Process) -> bool:
    try:
        return process.status() not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
    except psutil.NoSuchProcess:
        return False


def refuse_other_verdict(answer: Comparison, state: Path) -> None:
    """The saved comparison is the answer, and its evidence alone gives its verdict."""
    saved = comparisons.load(state, answer.id)
    assert answer.evidence is None
    assert saved.evidence is not None
    told = from_plain(Comparison, to_plain(answer))  # without what verify adds for readers of hotkernel 0.1
    assert replace(saved, evidence=None, seconds={}) == replace(told, seconds={})
    verdict = decide(saved.evidence)
    assert (verdict.kind, verdict.reason, verdict.rule) == (saved.verdict, saved.reason, saved.rule)
    assert (verdict.speedup, verdict.interval) == (saved.speedup, saved.interval_99)
    assert (verdict.equivalent, verdict.smallest_effect_pct) == (saved.equivalent, saved.smallest_effect_pct)
