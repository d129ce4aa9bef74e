"""On a card: no cheat is called faster and no honest candidate is refused, every case against an eager rmsnorm 4096x8192."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "integrity"))
from cases import TARGETS, Case, all_cases

from hotkernel.errors import ToolError
from hotkernel.schema.verdict import Side
from hotkernel.session import Session
from hotkernel.tools.speed import judge

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA driver on this machine"),
]
CASES = [case for case in all_cases() if case.target == "rmsnorm"]
PAIRS, LIMIT_S = 3, 60.0


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    folder = tmp_path_factory.mktemp("cases")
    text = (TARGETS / "rmsnorm_baseline.py").read_text(encoding="utf-8")
    for small, large in (("256x1024", "4096x8192"), ('"w": "1024"', '"w": "8192"'), ('device="cpu"', 'device="cuda"')):
        assert small in text
        text = text.replace(small, large)
    (folder / "rmsnorm_baseline.py").write_text(text, encoding="utf-8")
    python = os.environ.get("HOTKERNEL_PYTHON") or sys.executable
    session = Session(root=folder, environment={**os.environ, "HOTKERNEL_PYTHON": python,
                                                "HOTKERNEL_STATE_DIR": str(folder / "state")})
    yield session
    session.nursery.close()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_judged_on_the_card_as_it_must_be(session: Session, case: Case) -> None:
    candidate = session.root / case.name / case.path.name
    candidate.parent.mkdir()
    shutil.copyfile(case.path, candidate)
    try:
        found = judge(session, {Side.BASELINE: session.root / "rmsnorm_baseline.py", Side.CANDIDATE: candidate}, n=PAIRS,
                      timeout=LIMIT_S)
    except ToolError as error:
        if not case.is_cheat:
            pytest.fail(f"an honest candidate could not be judged: {error}")
        session.nursery.close()
        return

    assert case.passes(found.verdict), f"{found.verdict}: {found.reason}"
    assert found.device == "cuda"
