"""On a card: ten targets of the variety of real kernels; honest code is judged, untouched is not faster, wrong is incorrect."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotkernel.schema.comparison import Comparison
from hotkernel.schema.verdict import Side, VerdictKind
from hotkernel.session import Session
from hotkernel.tools.speed import judge

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA driver on this machine"),
]
TARGETS = Path(__file__).parent / "targets"
NAMES = sorted(file.name.removesuffix("_baseline.py") for file in TARGETS.glob("*_baseline.py"))
PAIRS, LIMIT_S = 3, 120.0
CASES = """
import torch
from hotkernel_contract import Target

def scale(x, w):
    return torch.relu(x) * w

TARGET = Target(name="scale", function=scale, inputs={"x": "2048x4096", "w": "4096"}, device="cuda", baselines={
    "in two": lambda x, w: torch.relu(x).mul(w).clone()}, cases={"bf16": {}, "fp32": {"dtype": "fp32"},
    "small": {"inputs": {"x": "64x4096"}}})
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("kinds")
    shutil.copytree(TARGETS, folder / "targets")
    python = os.environ.get("HOTKERNEL_PYTHON") or sys.executable
    session = Session(root=folder, environment={**os.environ, "HOTKERNEL_PYTHON": python,
                                                "HOTKERNEL_STATE_DIR": str(folder / "state")})
    yield session
    session.nursery.close()


def verdict(session: Session, name: str, source: str) -> Comparison:
    """The verdict on this source as the candidate of a target."""
    baseline = session.root / "targets" / f"{name}_baseline.py"
    folder = session.root / f"{name}-{abs(hash(source)):x}"
    folder.mkdir()
    candidate = folder / f"{name}_candidate.py"
    candidate.write_text(source, encoding="utf-8")
    found = judge(session, {Side.BASELINE: baseline, Side.CANDIDATE: candidate}, n=PAIRS, timeout=LIMIT_S)
    assert found.device == "cuda"
    return found


def text(name: str, kind: str) -> str:
    return (TARGETS / f"{name}_{kind}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_an_honest_rewrite_is_judged_by_its_time(session: Session, name: str) -> None:
    found = verdict(session, name, text(name, "honest"))

    assert found.verdict not in (VerdictKind.INCORRECT, VerdictKind.INVALID), found.reason
    assert all(check.ok for check in found.checks)


@pytest.mark.parametrize("name", NAMES)
def test_a_subtly_wrong_rewrite_is_incorrect(session: Session, name: str) -> None:
    assert verdict(session, name, text(name, "wrong")).verdict is VerdictKind.INCORRECT


@pytest.mark.parametrize("name", NAMES)
def test_the_baseline_itself_as_the_candidate_is_never_faster(session: Session, name: str) -> None:
    itself = f"{text(name, 'baseline')}\n\n{name}_candidate = TARGET.function\n"
    found = verdict(session, name, itself)

    assert found.verdict in (VerdictKind.INCONCLUSIVE, VerdictKind.SLOWER), found.reason


def test_prepared_weights_are_timed_apart(session: Session) -> None:
    found = verdict(session, "mlp", text("mlp", "honest") + "\n# once more\n")

    assert found.setup_ms is not None
    assert list(found.setup_ms) == ["candidate"]


def test_cases_and_baselines_on_a_card(session: Session) -> None:
    (session.root / "targets" / "scale_baseline.py").write_text(CASES, encoding="utf-8")
    found = verdict(session, "scale", "import torch\n\ndef scale_candidate(x, w):\n    return torch.relu(x) * w\n")

    assert [case.case for case in found.cases] == ["bf16", "fp32", "small"]
    assert found.baseline_name == "baseline"
    assert found.verdict in (VerdictKind.INCONCLUSIVE, VerdictKind.SLOWER), found.reason


def test_a_fused_check_and_torchs_own_agree_on_every_output_of_a_target(session: Session) -> None:
    import torch

    from hotkernel_contract.check_kernel import fits, fused_statistics
    from hotkernel_contract.compare import Expected, statistics
    from hotkernel_contract.loading import load_file
    from hotkernel_contract.outputs import observe
    from hotkernel_contract.target import find_target, wide_for

    target = find_target(load_file(TARGETS / "residual_rmsnorm_baseline.py")).settle("cuda")
    seen = observe(target, "cuda")
    answers = target.expected(seen.inputs, wide_for(*seen.dtypes))
    for (name, y), tolerance in zip(seen.outputs.items(), seen.tolerances(target), strict=True):
        expected = Expected.of(answers[name], y.dtype)
        assert fits(y, expected)
        fused = fused_statistics([y], [expected], tolerance)[0]
        torch.testing.assert_close(fused, statistics(y, expected, tolerance), rtol=1e-3, atol=1e-6)


def test_a_new_sides_cache_holds_tritons_own_module_before_it_is_loaded(session):
    """It need not be compiled again; what the zygote made is what this Triton looks for, or the side has none."""
    found = verdict(session, NAMES[0], "import os\nfrom pathlib import Path\n"
                    "assert list(Path(os.environ['TRITON_CACHE_DIR']).glob('*/cuda_utils*.so'))\n\n"
                    "def candidate(*anything):\n    raise RuntimeError('it was loaded')\n")

    assert found.rule == "raised"
    assert "it was loaded" in found.reason


def test_outputs_in_memory_that_no_other_process_can_be_given_are_copied_out_on_both_sides(session: Session) -> None:
    (session.root / "targets" / "halved_baseline.py").write_text(
        "import torch\nfrom hotkernel_contract import Target\n\nTARGET = Target(name='halved', function=lambda x: x * 0.5, "
        "inputs={'x': '2048x4096'}, device='cuda')\n", encoding="utf-8")
    found = verdict(session, "halved", "import torch\n\ntorch.cuda.memory._set_allocator_settings('expandable_segments:True')\n\n"
                    "def halved_candidate(x):\n    return x * 0.5\n")

    assert found.verdict in (VerdictKind.INCONCLUSIVE, VerdictKind.SLOWER), found.reason
    assert found.evidence is not None
    assert any("no other process" in note and "both sides alike" in note for note in found.evidence.plan.notes)


def test_a_verify_leaves_no_file_of_cudas_in_dev_shm(session: Session) -> None:
    before = set(Path("/dev/shm").iterdir())
    verdict(session, "mlp", text("mlp", "honest") + "\n# and again\n")
    session.nursery.close()

    assert set(Path("/dev/shm").iterdir()) <= before
