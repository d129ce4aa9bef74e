"""The nouns of doctor: one check with what was seen and its fix, one self-test case, and the report of all."""

from __future__ import annotations

import enum
from dataclasses import dataclass

SCHEMA = 1


class CheckStatus(enum.StrEnum):
    """How a check came out."""

    OK = "ok"
    WARNING = "warning"  # something works less well, or not all of it
    FAIL = "fail"  # a tool that is meant to work here cannot
    SKIPPED = "skipped"  # it cannot be tried here, or need not


@dataclass(frozen=True)
class DoctorCheck:
    """One thing that was tried: what was seen and, where it is not well, what to do."""

    name: str
    status: CheckStatus
    detail: str
    fix: str | None = None

    def __post_init__(self) -> None:
        if not self.detail or (self.status in (CheckStatus.WARNING, CheckStatus.FAIL) and not self.fix):
            raise ValueError(f"the check {self.name} is {self.status} and says detail={self.detail!r}, fix={self.fix!r}")


class CaseStatus(enum.StrEnum):
    """How a self-test case came out."""

    PASSED = "passed"
    UNSEEN = "unseen"  # a planted difference was not found: the machine is too noisy, and nobody was told wrong
    FAILED = "failed"  # the judge said what is not so
    SKIPPED = "skipped"  # there was no time left


@dataclass(frozen=True)
class SelfTestCase:
    """A verify whose verdict is known beforehand."""

    name: str
    status: CaseStatus
    expected: tuple[str, ...]  # verdicts that are right
    verdict: str | None  # null: there was none
    detail: str
    seconds: float | None = None


@dataclass(frozen=True)
class SelfTest:
    """Whole verifies of planted candidates, in a state folder of their own that is gone afterwards."""

    passed: bool  # no case failed, and none was left out
    device: str | None  # null: no verify came to an answer
    target: str
    note: str
    cases: tuple[SelfTestCase, ...]
    seconds: float


@dataclass(frozen=True)
class DoctorReport:
    """What works on this machine and what does not; the worst first."""

    overall: CheckStatus  # the worst of all, the self-test's among them
    message: str
    checks: tuple[DoctorCheck, ...]
    selftest: SelfTest | None = None
    seconds: float | None = None
    schema: int = SCHEMA
