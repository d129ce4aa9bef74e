"""A user's file of functions, targets made from it, and what a refusal must leave as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import stand_ins

from hotkernel.errors import ToolError
from hotkernel.schema.target import NewTarget
from hotkernel.session import Session
from hotkernel.tools.targets import new_target

MINE = '''
import torch

FACTOR = 3.0

def scaled(x, w):
    return x * w * FACTOR

def one(x):
    return x * 2.0

def constant(x, w):
    return torch.ones_like(x)

def gather(x, idx, keep):
    return x[idx] * keep[:, None]

def quantised(raw):
    scale = raw["x"].abs().amax(1, keepdim=True).float().clamp(min=1e-6) / 127
    return {"q": (raw["x"].float() / scale).round().to(torch.int8), "scale": scale, "v": raw["v"]}

def dequantised_mv(q, scale, v):
    return (q.float() * scale) @ v

if __name__ == "__main__":
    raise SystemExit("ran as a script")
'''


@pytest.fixture
def session(tmp_path: Path) -> Session:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "mine.py").write_text(MINE, encoding="utf-8")
    return stand_ins.session(tmp_path / "work", HOTKERNEL_STATE_DIR=str(tmp_path / "state"))


def make(session: Session, target: str = "scaled", from_: str = "./mine.py:scaled", **given: Any) -> NewTarget:
    known: dict[str, Any] = {"shape": "16x32", "extra": ["w:32"], "dtype": "fp32", "device": "cpu", "iters": 4}
    return new_target(session, target, from_, **{**known, **given})


def refused(session: Session, *words: str, **given: Any) -> ToolError:
    """The refusal of a target, which must leave everything as it was."""
    before = listing(session.root)
    with pytest.raises(ToolError) as caught:
        make(session, *words, **given)
    assert listing(session.root) == before
    return caught.value


def listing(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in folder.rglob("*")
            if "__pycache__" not in str(path)}


def plain_line(file: Path) -> tuple[int, dict[str, Any]]:
    """Exit status and line of a target's file under plain python, with nothing of ours within reach."""
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=60, check=False, cwd="/", env={})
    return done.returncode, json.loads(done.stdout.splitlines()[-1])


def in_a_child(what: Callable[[], object], before: Callable[[], None]) -> str:
    """The text of the refusal that `what` gets in a forked process, where `before` takes something away."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            before()
            answer = f"made {what()}"
        except ToolError as error:
            answer = str(error)
        except BaseException as error:  # noqa: BLE001 - whatever it was, the parent must hear of it
            answer = f"bug: {error!r}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer
