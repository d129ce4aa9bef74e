"""Claims about exit statuses: a script learns the verdict, a gate passes on what was shown alone."""

from __future__ import annotations

import pytest

from hotkernel import exit_status
from hotkernel.exit_status import NOT_WELL, OF_VERDICT, status_of


def verdict(kind: str, smallest_effect_pct: float | None = None) -> dict[str, object]:
    return {"verdict": kind, "smallest_effect_pct": smallest_effect_pct}


@pytest.mark.parametrize("require", [None, "faster"])
@pytest.mark.parametrize("kind", OF_VERDICT)
def test_faster_alone_ends_with_0(kind: str, require: str | None) -> None:
    status, _ = status_of("verify", verdict(kind, 0.5), require)

    assert status == OF_VERDICT[kind]
    assert (status == 0) == (kind == "faster")


@pytest.mark.parametrize(("kind", "smallest", "passes", "said"), [
    ("faster", None, True, "met"),
    ("inconclusive", 1.2, True, "a slowdown of 1.2 % would have been seen"),
    ("inconclusive", 12.0, False, "only one of 12 % would have been seen"),
    ("inconclusive", None, False, "nothing was measured well enough"),
    ("slower", None, False, "it is slower"),
    ("incorrect", None, False, "it is incorrect"),
    ("invalid", None, False, "it is invalid"),
])
def test_not_slower_passes_where_a_slowdown_would_have_been_seen(kind, smallest, passes, said) -> None:
    status, line = status_of("verify", verdict(kind, smallest), "not-slower")

    assert (status == 0) == passes
    assert passes or status == OF_VERDICT[kind]
    assert said in line


@pytest.mark.parametrize(("tool", "plain", "status"), [
    ("doctor", {"overall": "fail"}, NOT_WELL), ("doctor", {"overall": "warning"}, 0), ("doctor", {"overall": "ok"}, 0),
    ("audit", {"ok": False}, NOT_WELL), ("audit", {"ok": True}, 0), ("history", {"ok": False}, 0),
])
def test_what_is_not_well_does_not_end_with_0(tool: str, plain: dict[str, object], status: int) -> None:
    assert status_of(tool, plain) == (status, "")


def test_every_status_is_told_in_the_help() -> None:
    for status in (*OF_VERDICT.values(), NOT_WELL, exit_status.CANNOT, exit_status.USAGE, exit_status.STOPPED):
        assert f"{status} " in exit_status.TEXT
