"""On a card: a decoder's step by device time, a target of its norm, a Triton candidate judged and tried in the model."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotkernel.schema.capture import OPERATOR, CaptureRun
from hotkernel.schema.verdict import VerdictKind
from hotkernel.session import Session
from hotkernel.tools.capture import capture
from hotkernel.tools.kernels import torch_trace
from hotkernel.tools.speed import verify

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA driver on this machine"),
]
ROOT = Path(__file__).parents[2]
SIZE = ["--layers", "12", "--dim", "2048", "--tokens", "1024", "--dtype", "bf16", "--device", "cuda"]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("model")
    shutil.copy(ROOT / "examples" / "decoder.py", folder)
    made = Session(root=folder, environment={"HOTKERNEL_PYTHON": sys.executable, **os.environ,
                                             "HOTKERNEL_STATE_DIR": str(folder / "state")})
    yield made
    made.nursery.close()


def run(session: Session, **asked: object) -> CaptureRun:
    return capture(session, "decoder.py", **{"step": "step", "args": SIZE, **asked})  # type: ignore[arg-type]


def test_rows_are_of_device_time_and_agree_with_torch_trace(session: Session) -> None:
    step, whole = run(session, top=200), run(session, step="", top=200)
    theirs = torch_trace(session, "decoder.py", top=200, args=SIZE)
    counted: Counter[str] = Counter()
    for op in theirs.ops:
        counted[op.name] += op.calls

    assert step.device == whole.device == "cuda"
    assert step.rows[0].pct == pytest.approx(100, abs=1)  # the model itself launches every kernel of a step
    mine = {row.name: row.calls for row in whole.rows if row.kind == OPERATOR}
    assert {name: mine[name] for name in ("aten::linear", "aten::mul", "aten::mean", "aten::cat")} == {
        name: counted[name] for name in ("aten::linear", "aten::mul", "aten::mean", "aten::cat")}


def test_a_triton_norm_wins_and_its_gain_in_the_model_is_held_against_amdahls(session: Session) -> None:
    picked = run(session, pick="RMSNorm", out_dir="norm")
    assert picked.target is not None
    files = picked.target.new_target.files
    shutil.copy(ROOT / "benchmarks" / "decoder" / "rmsnorm_candidate.py", files["candidate"])
    verified = verify(session, files["candidate"], files["baseline"])
    applied = run(session, apply=files["candidate"], n=5).applied
    assert applied is not None

    assert verified.verdict is VerdictKind.FASTER, verified.reason
    assert (applied.swapped_calls, applied.left_calls, applied.comparison) == (25, 0, verified.id)
    assert applied.verdict in (VerdictKind.FASTER, VerdictKind.INCONCLUSIVE), applied.reason
    assert applied.predicted_speedup is not None
    assert applied.predicted_speedup[1] > 1
    assert applied.agrees is not None
