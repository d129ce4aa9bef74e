"""doctor: tries everything that hotkernel needs, one thing after another, and says what to do; repairs nothing."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated

from hotkernel.errors import ToolError
from hotkernel.schema.doctor import CaseStatus, CheckStatus, DoctorCheck, DoctorReport, SelfTest
from hotkernel.session import Session
from hotkernel.tools import doctor_card, doctor_machine, doctor_python
from hotkernel.tools.card_lock import card_held

WORST_FIRST = (CheckStatus.FAIL, CheckStatus.WARNING, CheckStatus.SKIPPED, CheckStatus.OK)
WORDS = {CheckStatus.FAIL: "failed", CheckStatus.WARNING: "with a warning", CheckStatus.SKIPPED: "skipped", CheckStatus.OK: "ok"}

Probe = Callable[[], DoctorCheck | Iterable[DoctorCheck]]


def doctor(
    session: Session,
    selftest: Annotated[bool, "then judge planted changes and cheats whose verdicts are known (two minutes)"] = False,
) -> DoctorReport:
    """Try what hotkernel needs on this machine: what works, what does not, and the fix of each.

    Python, torch, Triton, driver, profilers and their counters, disassemblers, the card's other users, clocks, folders:
    tried, not guessed, the worst first.
    """
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="hotkernel-doctor-") as folder:
        checks = _checks(session, Path(folder))
    tested = None
    if selftest:
        # imported here, as it brings all of verify with it
        from hotkernel.tools.selftest import run_selftest

        tested = run_selftest(session)
    checks.sort(key=lambda check: WORST_FIRST.index(check.status))
    overall = min((checks[0].status, _status_of(tested)), key=WORST_FIRST.index)
    return DoctorReport(overall=overall, message=_message(checks, tested), checks=tuple(checks), selftest=tested,
                        seconds=time.monotonic() - began)


def _checks(session: Session, scratch: Path) -> list[DoctorCheck]:
    """Every check, in the order in which they build on each other."""
    listed, here = doctor_card.cards_here(session)
    found: list[DoctorCheck] = []

    def run(what: str, probe: Probe) -> None:
        session.progress(f"looking at the {what}", len(found), None)
        try:
            answered = probe()
        except ToolError as error:  # the lock, or a probe that outlasts its time: the other checks go on
            answered = DoctorCheck(what, CheckStatus.FAIL, error.message, error.fix)
        found.extend([answered] if isinstance(answered, DoctorCheck) else answered)

    def python_checks() -> list[DoctorCheck]:
        with card_held(session):
            return doctor_python.python_checks(session, scratch, bool(here))

    run("platform", doctor_machine.platform_check)
    run("environment", lambda: doctor_machine.environment_check(session.environment))
    run("folders", lambda: doctor_machine.folder_check(session))
    run("processor", doctor_machine.processor_check)
    run("driver", lambda: doctor_card.driver_check(listed, here))
    for gpu in here[:1]:
        run("card_users", lambda gpu=gpu: doctor_card.users_check(gpu))  # type: ignore[misc]
        run("clocks", lambda gpu=gpu: doctor_card.clocks_check(gpu))  # type: ignore[misc]
        run("calibration", lambda gpu=gpu: doctor_card.calibration_check(session, gpu))  # type: ignore[misc]
    run("python", python_checks)
    on_card = any(check.name == "torch" and check.status is CheckStatus.OK for check in found) and bool(here)
    run("nsys", lambda: doctor_card.nsys_check(session, scratch, on_card, bool(here)))
    run("ncu", lambda: doctor_card.ncu_check(session, scratch, on_card, bool(here)))
    run("ncu_report", lambda: doctor_card.report_reader_check(session, bool(here)))
    for name in ("cuobjdump", "nvdisasm"):
        run(name, lambda name=name: doctor_card.disassembler_check(session, name, scratch))  # type: ignore[misc]
    return found


def _status_of(tested: SelfTest | None) -> CheckStatus:
    if tested is None:
        return CheckStatus.OK
    seen = {case.status for case in tested.cases}
    if CaseStatus.FAILED in seen:
        return CheckStatus.FAIL
    return CheckStatus.WARNING if seen - {CaseStatus.PASSED} else CheckStatus.OK


def _message(checks: list[DoctorCheck], tested: SelfTest | None) -> str:
    counts = [(sum(check.status is status for check in checks), status) for status in WORST_FIRST]
    said = ", ".join(f"{count} {WORDS[status]}" for count, status in counts if count)
    if tested is None:
        return said
    passed = sum(case.status is CaseStatus.PASSED for case in tested.cases)
    return f"{said}; self-test: {passed} of {len(tested.cases)} as they should" + ("" if tested.passed else ", see selftest")
