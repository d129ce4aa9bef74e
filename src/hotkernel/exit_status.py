"""Says with which status a tool's run ends, so that scripts and CI can go by it; decides nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CANNOT, USAGE, NOT_WELL, STOPPED = 1, 2, 20, 130
OF_VERDICT = {"faster": 0, "inconclusive": 10, "slower": 11, "incorrect": 12, "invalid": 13}
REQUIREMENTS = ("faster", "not-slower")
SEEN_PCT = 5.0  # not-slower: a slowdown of so much would have been seen

TEXT = """exit status: 0 done; for verify 0 faster, 10 inconclusive, 11 slower, 12 incorrect, 13 invalid;
             20 for doctor when something fails, for audit when a log or row does not hold;
             1 the tool could not do it (the message says what to do), 2 wrong usage, 130 interrupted
"""
OF_TOOL = {
    "verify": "exit status: 0 faster, 10 inconclusive, 11 slower, 12 incorrect, 13 invalid; with --require 0 where it is met",
    "capture": "exit status: 0; with --apply that of its verdict: 0 faster, 10 inconclusive, 11 slower, 12 incorrect, 13 invalid",
    "doctor": "exit status: 0, or 20 when something fails",
    "audit": "exit status: 0, or 20 when a log or a row does not hold",
}
REQUIRE_HELP = ("for CI: faster ends with 0 for that verdict alone; not-slower also where no difference was shown and a slowdown "
                f"of {SEEN_PCT:.0f} %% would have been")


def status_of(tool: str, plain: Mapping[str, Any], require: str | None = None) -> tuple[int, str]:
    """The exit status, and a line that says whether what was required is met; empty where nothing was."""
    if tool == "verify":
        return _of_verdict(plain, require)
    if tool == "capture" and plain.get("applied"):
        return _of_verdict(plain["applied"], None)
    is_well = plain.get("overall") != "fail" if tool == "doctor" else plain.get("ok") is not False if tool == "audit" else True
    return (0 if is_well else NOT_WELL), ""


def _of_verdict(plain: Mapping[str, Any], require: str | None) -> tuple[int, str]:
    verdict = str(plain.get("verdict"))
    status = OF_VERDICT.get(verdict, CANNOT)
    if require is None:
        return status, ""
    smallest = plain.get("smallest_effect_pct")
    if verdict == "faster":
        return 0, f"required {require}: met"
    if require == "not-slower" and verdict == "inconclusive":
        if smallest is not None and smallest <= SEEN_PCT:
            return 0, f"required {require}: met, as a slowdown of {smallest:.2g} % would have been seen"
        seen = "nothing was measured well enough" if smallest is None else f"only one of {smallest:.2g} % would have been seen"
        return status, f"required {require}: not shown, {seen}"
    return status, f"required {require}: not met, it is {verdict}"
