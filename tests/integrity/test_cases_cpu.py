"""No cheat is called faster and no honest candidate is refused: every case that runs without a card, under the whole judge.

A case that also leaves a marker somewhere is held to that apart: only confinement can keep it out of places that everybody
may write to, and where there is none the check is skipped, and says so.
"""

from __future__ import annotations

import os
import shutil
import site
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cases import TARGETS, Case, all_cases

from hotkernel.errors import ToolError
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.verdict import Side
from hotkernel.session import Session
from hotkernel.tools.speed import judge

pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the judge stands workers still by /proc")

CASES = [case for case in all_cases() if case.runs_on_cpu]
PAIRS, VALUES = 3, 2  # enough for a verdict of any kind; more would only make it surer
TIMEOUT_S = 100.0
MARKER = "hotkernel_case_marker"
PUBLIC_MARKERS = (Path("/tmp"), Path("/var/tmp"))


@dataclass
class Court:
    """One warm server for all cases, with a state folder of its own."""

    folder: Path
    session: Session

    def judge(self, case: Case) -> Comparison:
        """The verdict on a case, in a folder of its own with a copy of its target."""
        own = self.folder / case.name
        own.mkdir(exist_ok=True)
        baseline = own / f"{case.target}_baseline.py"
        shutil.copyfile(TARGETS / baseline.name, baseline)
        candidate = own / case.path.name
        shutil.copyfile(case.path, candidate)
        try:
            return judge(self.session, {Side.BASELINE: baseline, Side.CANDIDATE: candidate}, n=PAIRS, timeout=TIMEOUT_S,
                         values_per_pair=VALUES)
        except ToolError as error:
            if "timeout" in error.message:
                pytest.skip(f"this machine is too busy to judge on: {error.message}")
            raise


@pytest.fixture(scope="module")
def court(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Court]:
    folder = tmp_path_factory.mktemp("court")
    environment = {**os.environ, "HOTKERNEL_PYTHON": sys.executable, "HOTKERNEL_STATE_DIR": str(folder / "state")}
    session = Session(root=folder, environment=environment)
    yield Court(folder, session)
    session.nursery.close()


@pytest.fixture
def no_markers() -> Iterator[None]:
    for path in _public_markers():
        path.unlink()
    yield
    for path in _public_markers():
        path.unlink()


def _public_markers() -> list[Path]:
    return [path for folder in PUBLIC_MARKERS if folder.is_dir() for path in folder.glob(f"{MARKER}*")]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_case_is_judged_as_it_must_be(court: Court, no_markers: None, case: Case) -> None:
    found = court.judge(case)

    assert case.passes(found.verdict), f"{found.verdict}: {found.reason}"
    _check_markers(court, case, found)


def _check_markers(court: Court, case: Case, found: Comparison) -> None:
    """Nothing of the case lies outside of its own scratch and caches."""
    own = court.folder / case.name
    assert (own / f"{case.target}_baseline.py").read_bytes() == (TARGETS / f"{case.target}_baseline.py").read_bytes()
    assert (own / case.path.name).read_bytes() == case.path.read_bytes()
    assert not list(Path(site.getusersitepackages()).glob(f"{MARKER}*"))
    assert not list(own.glob(f"{MARKER}*"))
    marked = {path.relative_to(court.folder / "state" / "caches").parts[0]
              for path in (court.folder / "state").rglob(f"{MARKER}*")}
    assert len(marked) <= 1, "the compile caches of another side, or of another case, are marked"
    for folder in marked:
        shutil.rmtree(court.folder / "state" / "caches" / folder)
    if _public_markers():
        if not found.confinement.get("landlock"):
            pytest.skip("judged right, but it wrote to /tmp: this machine has no Landlock to keep it out")
        pytest.fail(f"it wrote {_public_markers()} in spite of Landlock")


def test_a_result_says_what_held_its_workers(court: Court) -> None:
    found = court.judge(next(case for case in CASES if not case.is_cheat))

    assert {"own_session", "no_new_privs", "no_core_dump", "landlock", "landlock_signals"} <= found.confinement.keys()
    assert found.assurance == ("process" if found.confinement["landlock"] else "cooperative")
