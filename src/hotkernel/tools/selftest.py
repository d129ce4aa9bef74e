"""doctor's self-test: whole verifies of planted candidates whose verdicts are known; keeps nothing of them."""

from __future__ import annotations

import dataclasses
import importlib.resources
import tempfile
import time
import tomllib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.records.state import VARIABLE
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.doctor import CaseStatus, SelfTest, SelfTestCase
from hotkernel.session import Progress, Session
from hotkernel.tools.speed import verify

WHOLE_S = 110.0  # of verifying; waiting for others who time here does not count
LEAST_S = 8.0  # a case is not begun with less
CASE_S = 25.0  # or its part of what is left, where that is more
NO_TIME = "ran out of its timeout"
NOTE = "in a state folder of its own, which is gone: no ledger, pin, calibration or comparison of yours was touched"


@dataclass(frozen=True)
class Case:
    """A candidate and the verdicts that it may get."""

    name: str
    what: str
    right: tuple[str, ...]
    unseen: tuple[str, ...]
    n: int


def run_selftest(session: Session, only: Collection[str] = ()) -> SelfTest:
    """Verify every case, or those named; raises nothing for a judge that fails, as that is the answer."""
    began = time.monotonic()
    target, cases = read_cases()
    cases = [case for case in cases if not only or case.name in only]
    with tempfile.TemporaryDirectory(prefix="hotkernel-selftest-") as name:
        folder = Path(name)
        _write_files(folder)
        own = dataclasses.replace(session, root=folder, environment={**session.environment, VARIABLE: str(folder / "state")})
        found: list[SelfTestCase] = []
        device, left_s = None, WHOLE_S
        for number, case in enumerate(cases):
            own.progress = _telling(session.progress, case.what, number, len(cases))
            timeout_s = min(left_s, max(CASE_S, left_s / (len(cases) - number)))
            judged, on = _judge(own, case, target, timeout_s)
            device, left_s = on or device, left_s - (judged.seconds or 0.0)
            found.append(judged)
    passed = all(each.status in (CaseStatus.PASSED, CaseStatus.UNSEEN) for each in found)
    return SelfTest(passed, device, target, NOTE, tuple(found), time.monotonic() - began)


def read_cases() -> tuple[str, Sequence[Case]]:
    """The target's name and the cases, from the package's own data."""
    plain = tomllib.loads(_data().joinpath("cases.toml").read_text(encoding="utf-8"))
    return plain["target"], [Case(each["name"], each["is"], tuple(each["right"]), tuple(each.get("unseen", ())), each["n"])
                             for each in plain["cases"]]


def judged_case(case: Case, verdict: str | None, detail: str, seconds: float) -> SelfTestCase:
    """How a case came out with this verdict; without one nothing was claimed, so nothing false was."""
    if verdict in case.right:
        status = CaseStatus.PASSED
    elif verdict is None or verdict in case.unseen:
        status, detail = CaseStatus.UNSEEN, f"this machine is too noisy to see it: {detail}"
    else:
        status = CaseStatus.FAILED
    return SelfTestCase(f"{case.name}: {case.what}", status, case.right, verdict, detail, seconds)


def _judge(session: Session, case: Case, target: str, timeout_s: float) -> tuple[SelfTestCase, str | None]:
    """One case's outcome, and the device it was judged on."""
    name = f"{case.name}: {case.what}"
    if timeout_s < LEAST_S:
        return SelfTestCase(name, CaseStatus.SKIPPED, case.right, None, "no time was left"), None
    try:
        comparison: Comparison = verify(session, f"{case.name}.py", f"{target}_baseline.py", n=case.n, timeout=timeout_s)
    except ToolError as error:
        if NO_TIME in error.message:
            return judged_case(case, None, error.message, timeout_s), None
        return SelfTestCase(name, CaseStatus.FAILED, case.right, None, f"{error.message}; {error.fix}"), None
    return judged_case(case, str(comparison.verdict), comparison.reason, comparison.seconds["verify"]), comparison.device


def _data() -> importlib.resources.abc.Traversable:
    return importlib.resources.files("hotkernel").joinpath("selftest")


def _write_files(folder: Path) -> None:
    for file in _data().iterdir():
        if file.name.endswith(".py.txt"):
            (folder / file.name.removesuffix(".txt")).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")


def _telling(progress: Progress, what: str, number: int, total: int) -> Progress:
    """The caller's progress, with which case it is; a verify's own words in between."""
    def tell(message: str, _done: int | None = None, _total: int | None = None) -> None:
        progress(f"self-test, {what}: {message}", number, total)

    return tell
