"""On a card: the Triton candidates of the examples are right at their full shapes, and not slower than what they replace."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotkernel.session import Session

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA driver on this machine"),
]
ROOT = Path(__file__).parents[2]
# the most that a candidate's time may be of its baseline's, by the plain line: torch's own softmax and mv are good already
LARGEST_SHARE = {"01_rmsnorm/rmsnorm": 0.35, "02_softmax/softmax": 1.05, "03_gemv/gemv": 1.05}


def plain_line(file: Path) -> dict[str, object]:
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=300, check=True,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})
    line = json.loads(done.stdout.splitlines()[-1])
    assert line["ok"] is True
    assert line["device"] == "cuda"
    return dict(line)


@pytest.mark.parametrize("example", LARGEST_SHARE)
def test_a_triton_candidate_is_right_and_as_fast_as_its_example_says(example: str) -> None:
    baseline, candidate = (plain_line(ROOT / "examples" / f"{example}_{side}.py") for side in ("baseline", "candidate"))

    assert candidate["ms"] <= LARGEST_SHARE[example] * baseline["ms"]


def test_verify_calls_the_rmsnorm_faster(tmp_path: Path) -> None:
    from hotkernel.tools.speed import verify

    session = Session(root=ROOT / "examples" / "01_rmsnorm",
                      environment={**os.environ, "HOTKERNEL_PYTHON": sys.executable, "HOTKERNEL_STATE_DIR": str(tmp_path)})

    comparison = verify(session, "rmsnorm_candidate.py", "rmsnorm_baseline.py")

    assert comparison.verdict == "faster", comparison.reason
    assert comparison.speedup is not None
    assert comparison.speedup > 3


def test_new_target_makes_and_tries_a_target_on_the_card(tmp_path: Path) -> None:
    from hotkernel.tools.targets import new_target

    session = Session(root=tmp_path, environment={**os.environ, "HOTKERNEL_PYTHON": sys.executable,
                                                  "HOTKERNEL_STATE_DIR": str(tmp_path / "state")})

    target = new_target(session, "gelu", "torch.nn.functional:gelu", "1024x4096", iters=20)

    assert target.device == "cuda"
    assert plain_line(Path(target.files["candidate"]))["ms"] > 0
