"""Where processes cannot share the card's memory: both sides go through the host, and the verdicts stay what they are.

No such machine is needed: a copy of the package is run whose driver refuses to export memory, as WSL2's does.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.gpu

SOURCES = Path(__file__).resolve().parents[2] / "src"
EXPORT = '        """The inter-process handle of the allocation that `pointer` lies in."""\n'
BASELINE = """import torch
from hotkernel_contract import Target

def slow(x, w):
    for _ in range(600):
        y = torch.tanh(x.float() * w.float())
    return y.to(x.dtype)

TARGET = Target(name="slow", function=slow, inputs={"x": "512x1024", "w": "1024"}, dtype="bf16", rotate=("x",))
"""
SIDES = {
    "same": BASELINE.replace("def slow", "def slow_candidate").partition("TARGET")[0],
    "tenth": BASELINE.replace("def slow", "def slow_candidate").replace("600", "60").partition("TARGET")[0],
    "wrong": "import torch\n\ndef candidate(x, w):\n    return torch.tanh(x * w * 1.01)\n",
}
ASK = """import json, sys
from pathlib import Path
from hotkernel.records import comparisons
from hotkernel.records.state import state_dir
from hotkernel.session import Session
from hotkernel.tools.speed import verify
session = Session(root=Path(sys.argv[1]))
found = {}
for side in sys.argv[2:]:
    said = verify(session, side + ".py", "slow_baseline.py", n=3)
    kept = comparisons.load(state_dir(session.environment), said.id)
    plan = kept.evidence.plan
    found[side] = {"verdict": said.verdict, "reason": said.reason, "mode": plan.mode, "notes": plan.notes}
session.nursery.close()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("host")
    shutil.copytree(SOURCES, folder / "src")
    slots = folder / "src" / "hotkernel_contract" / "slots.py"
    text = slots.read_text(encoding="utf-8")
    assert EXPORT in text
    refusal = EXPORT + '        raise RuntimeError("cuIpcGetMemHandle: CUDA_ERROR_NOT_SUPPORTED")\n'
    slots.write_text(text.replace(EXPORT, refusal), encoding="utf-8")
    (folder / "slow_baseline.py").write_text(BASELINE, encoding="utf-8")
    for side, source in SIDES.items():
        (folder / f"{side}.py").write_text(source, encoding="utf-8")
    environment = {**os.environ, "HOTKERNEL_PYTHON": sys.executable, "HOTKERNEL_STATE_DIR": str(folder / "state"),
                   "PYTHONPATH": os.pathsep.join([str(folder / "src"), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([sys.executable, "-c", ASK, str(folder), *SIDES], env=environment, capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answer


def test_the_way_through_the_host_is_taken_and_said(found):
    assert {said["mode"] for said in found.values()} <= {"host"}
    assert all("cannot share the card's memory here (cuIpcGetMemHandle" in said["notes"][0] for said in found.values())


def test_the_verdicts_are_what_they_must_be(found):
    assert {side: said["verdict"] for side, said in found.items()} == {
        "same": "inconclusive", "tenth": "faster", "wrong": "incorrect"}, found
