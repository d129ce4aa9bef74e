"""A gain that the first call of a batch could hide shows in chains, or is none; calls that fill the launch queue are judged."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from hotkernel.schema.comparison import Comparison
from hotkernel.schema.verdict import Mode, Side, VerdictKind
from hotkernel.session import Session
from hotkernel.tools.speed import judge

pytestmark = pytest.mark.gpu

HEAD = "import torch\nfrom hotkernel_contract import Target\n\n"
TARGETS = {  # some 5 us, some 400 us of which a twentieth can be left out, and 120 kernels a call
    "tiny": ("    return torch.nn.functional.gelu(x.clone())\n", "64x1024"),
    "long": ("    for _ in range(20):\n        y = torch.tanh(x.float())\n    return y.to(x.dtype)\n", "1024x4096"),
    "many": ("    y = x.float()\n    for _ in range(120):\n        y = torch.tanh(y)\n    return y.to(x.dtype)\n", "64x1024"),
}
CANDIDATES = {
    "tiny": "def candidate(x):\n    return torch.nn.functional.gelu(x)\n",
    "long": "def candidate(x):\n    for _ in range(19):\n        y = torch.tanh(x.float())\n    return y.to(x.dtype)\n",
    "many": "def candidate(x):\n    y = x.float()\n    for _ in range(120):\n        y.tanh_()\n    return y.to(x.dtype)\n",
    "joined": (Path(__file__).parents[1] / "cheats" / "x42_works_out_small_calls_at_once.py").read_text(encoding="utf-8"),
}


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chains")
    session = Session(root=folder, environment={**os.environ, "HOTKERNEL_PYTHON": sys.executable,
                                                "HOTKERNEL_STATE_DIR": str(folder / "state")})
    yield session
    session.nursery.close()


def judged(session: Session, target: str, candidate: str) -> Comparison:
    body, shape = TARGETS[target]
    baseline, file = session.root / f"{target}_baseline.py", session.root / f"{candidate}_candidate.py"
    baseline.write_text(f"{HEAD}def {target}(x):\n{body}\nTARGET = Target(name={target!r}, function={target}, "
                        f"inputs={{'x': {shape!r}}}, dtype='bf16', device='cuda')\n", encoding="utf-8")
    file.write_text(f"import torch\n\n\n{CANDIDATES[candidate]}", encoding="utf-8")
    return judge(session, {Side.BASELINE: baseline, Side.CANDIDATE: file}, n=5, timeout=120.0)


def test_a_small_honest_gain_is_in_chains(session):
    found = judged(session, "tiny", "tiny")

    assert found.verdict is VerdictKind.FASTER, found.reason
    assert found.evidence.chains


def test_small_calls_that_are_worked_out_all_at_once_have_no_gain(session):
    found = judged(session, "tiny", "joined")

    assert (found.verdict, found.rule) == (VerdictKind.INCONCLUSIVE, "gain_not_in_one_call"), found.reason


def test_a_small_gain_of_a_long_call_is_in_chains_too(session):
    found = judged(session, "long", "long")

    assert found.verdict is VerdictKind.FASTER, found.reason
    assert found.evidence.plan.links
    assert found.evidence.chains


def test_calls_of_a_hundred_kernels_are_judged_behind_the_gate(session):
    found = judged(session, "many", "many")

    assert found.evidence.plan.mode is Mode.BATCHES, found.evidence.plan.notes
    assert found.verdict in (VerdictKind.FASTER, VerdictKind.INCONCLUSIVE, VerdictKind.SLOWER), found.reason
