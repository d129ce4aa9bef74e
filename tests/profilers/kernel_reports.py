"""Where the reports lie that the kernel rows are tested on, and a session to read them with."""

from pathlib import Path

import pytest

from hotkernel.profilers.report import Findings
from hotkernel.session import Session
from hotkernel.tools import saved_reports

OURS = Path(__file__).parents[1] / "fixtures" / "profilers"
PUBLIC = Path(__file__).parents[2].parent / "shared" / "fixtures" / "public"  # beside the checkout, never copied


def read(path: Path, folder: Path | None = None) -> Findings:
    """A report as the tools read it, on a machine with no programs."""
    return saved_reports.read(Session(root=folder or path.parent, environment={"PATH": ""}), path)


def public(name: str) -> Path:
    """A public report; the test is skipped where the folder is absent."""
    path = PUBLIC / name
    if not path.is_file():
        pytest.skip(f"{name} lies outside the checkout and is not here")
    return path
