"""Claims about script pairs: run in turn, the same thing measured, and never more than self-reported."""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from hotkernel.errors import ToolError
from hotkernel.records import comparisons
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.verdict import VerdictKind
from hotkernel.session import Session
from hotkernel.tools.script_pairs import compare_scripts

# Notes who ran, and prints the line it is given with the next of its times.
SCRIPT = """
import json, pathlib, sys
name, line, times = {name!r}, {line!r}, {times!r}
with open("order", "a", encoding="utf-8") as order:
    order.write(name[0])
seen = pathlib.Path("order").read_text(encoding="utf-8").count(name[0])
{extra}
print(json.dumps({{**json.loads(line), "ms": times[(seen - 1) % len(times)]}}))
"""
LINE = {
    "ok": True,
    "shape": [64, 32],
    "dtype": "torch.bfloat16",
    "iters": 20,
    "seed": 0,
    "protocol": 4,
    "device": "cpu",
    "target": "rms",
    "min_bytes": 8192,
    "flops": None,
    "torch": "2.13.0",
}
SLOW, FAST = [2.0, 2.01, 1.99], [1.0, 1.01, 0.99]


def script(folder: Path, name: str, times: list[float], extra: str = "", **changed: Any) -> str:
    line = {key: value for key, value in {**LINE, **changed}.items() if value != "absent"}
    path = folder / f"rms_{name}.py"
    path.write_text(SCRIPT.format(name=name, line=json.dumps(line), times=times, extra=extra), encoding="utf-8")
    return path.name


def compare(folder: Path, baseline: str, candidate: str, **given: Any) -> Comparison:
    environment = {
        "HOTKERNEL_PYTHON": sys.executable,
        "PATH": "/usr/bin:/bin",
        "HOTKERNEL_STATE_DIR": str(folder / "state"),
    }
    return compare_scripts(
        Session(root=folder, environment=environment), candidate, baseline, **{"n": 3, "warmup": 1, **given}
    )


def ran(folder: Path) -> str:
    return (folder / "order").read_text(encoding="utf-8")


def test_both_run_in_turn_and_the_one_that_goes_first_changes(tmp_path: Path) -> None:
    found = compare(tmp_path, script(tmp_path, "baseline", SLOW), script(tmp_path, "candidate", FAST), n=3, warmup=2)

    assert ran(tmp_path) == "bccbbccbbc"
    assert (found.baseline.n, found.candidate.n) == (3, 3)  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("baseline_ms", "candidate_ms", "verdict"),
    [(SLOW, FAST, VerdictKind.FASTER), (FAST, SLOW, VerdictKind.SLOWER), (SLOW, SLOW, VerdictKind.INCONCLUSIVE)],
)
def test_times_decide_and_the_answer_is_self_reported_whatever_they_say(
    tmp_path: Path, baseline_ms: list[float], candidate_ms: list[float], verdict: VerdictKind
) -> None:
    found = compare(tmp_path, script(tmp_path, "baseline", baseline_ms), script(tmp_path, "candidate", candidate_ms))

    assert found.verdict is verdict
    assert (found.self_reported, found.assurance) == (True, "self_reported")
    assert found.warnings == ("the scripts time and check themselves: this is not verified",)


def test_everything_the_record_needs_is_in_the_comparison(tmp_path: Path) -> None:
    candidate = script(tmp_path, "candidate", FAST)
    found = compare(tmp_path, script(tmp_path, "baseline", SLOW), candidate, args=["--fast"])
    content = (tmp_path / candidate).read_bytes()

    assert found.target == "rms"
    assert found.speedup == pytest.approx(2.0, rel=0.02)
    assert found.baseline.samples == (2.01, 1.99, 2.0)  # type: ignore[union-attr]
    assert found.sources["candidate"].sha256 == hashlib.sha256(content).hexdigest()
    assert found.sources["candidate"].text == content.decode()
    assert found.sources["baseline"].text is None
    assert found.cmds["candidate"] == [sys.executable, str(tmp_path / candidate), "--fast"]
    assert (found.device, found.dtype, found.shapes) == ("cpu", "torch.bfloat16", {"x": [64, 32]})
    assert found.roofline_inputs == {"min_bytes": 8192.0, "flops": None}
    assert found.protocol == 4
    assert comparisons.load(comparisons.save(tmp_path, found).parents[1], found.id) == found


@pytest.mark.parametrize(
    ("name", "value"),
    [("shape", [64, 64]), ("dtype", "torch.float16"), ("iters", 10), ("seed", 1), ("protocol", 3), ("dtype", "absent")],
)
def test_what_was_not_measured_alike_is_invalid_and_named(tmp_path: Path, name: str, value: Any) -> None:
    found = compare(tmp_path, script(tmp_path, "baseline", SLOW), script(tmp_path, "candidate", FAST, **{name: value}))

    assert (found.verdict, found.rule, found.speedup) == (VerdictKind.INVALID, f"{name}_differs", None)
    assert name in found.reason
    assert ran(tmp_path) == "bc"  # nothing more is run once it is clear


def test_a_seed_that_changes_from_run_to_run_is_invalid_too(tmp_path: Path) -> None:
    extra = 'line = json.dumps({**json.loads(line), "seed": seen})'
    names = (script(tmp_path, "baseline", SLOW, extra), script(tmp_path, "candidate", FAST, extra))

    assert compare(tmp_path, *names).rule == "seed_differs"


def test_a_candidate_that_fails_its_check_is_incorrect_however_fast(tmp_path: Path) -> None:
    failing = script(tmp_path, "candidate", FAST, "fails = seen == 3\nif fails: line = line.replace('true', 'false')",
                     why="x[3] is off")  # fmt: skip
    found = compare(tmp_path, script(tmp_path, "baseline", SLOW), failing)

    assert (found.verdict, found.rule, found.speedup) == (VerdictKind.INCORRECT, "check_failed", None)
    assert "x[3] is off" in found.reason


def test_a_baseline_that_fails_its_own_check_makes_it_invalid(tmp_path: Path) -> None:
    found = compare(tmp_path, script(tmp_path, "baseline", SLOW, ok=False), script(tmp_path, "candidate", FAST))

    assert (found.verdict, found.rule) == (VerdictKind.INVALID, "baseline_check_failed")


@pytest.mark.parametrize(
    ("extra", "rule"),
    [
        ("raise RuntimeError", "exit_status"),
        ("sys.exit(0)", "no_line"),
        ("import os; os.kill(os.getpid(), 11)", "killed_by_signal"),
        ("times = [float('nan')]", "bad_ms"),
        ("times = [-1.0]", "bad_ms"),
        ("print(json.dumps({'ms': 0.001, 'ok': True}))", "two_lines"),
        ("import time; time.sleep(60)", "timeout"),
    ],
)
@pytest.mark.parametrize("side", ["baseline", "candidate"])
def test_a_side_that_gives_no_time_is_a_verdict_with_its_name(tmp_path: Path, side: str, extra: str, rule: str) -> None:
    names = {name: script(tmp_path, name, FAST, extra if name == side else "") for name in ("baseline", "candidate")}

    found = compare(tmp_path, **names, timeout=2 if rule == "timeout" else 60)

    assert (found.verdict, found.rule, found.speedup) == (VerdictKind.INVALID, f"{side}_{rule}", None)
    assert comparisons.load(comparisons.save(tmp_path, found).parents[1], found.id) == found


def test_a_script_that_changes_while_it_is_measured_is_invalid(tmp_path: Path) -> None:
    extra = "open(__file__, 'a').write('# more\\n')"
    found = compare(tmp_path, script(tmp_path, "baseline", SLOW), script(tmp_path, "candidate", FAST, extra))

    assert (found.verdict, found.rule) == (VerdictKind.INVALID, "source_changed")


def test_scripts_that_say_little_are_compared_and_what_is_unknown_is_said(tmp_path: Path) -> None:
    bare = dict.fromkeys(LINE, "absent")
    found = compare(tmp_path, script(tmp_path, "baseline", SLOW, **bare), script(tmp_path, "candidate", FAST, **bare))

    assert found.verdict is VerdictKind.FASTER
    assert (found.target, found.device, found.dtype, found.gpu) == ("rms", "unknown", None, None)
    assert found.shapes == {}
    assert found.roofline_inputs == {}
    assert any('does not say "ok"' in warning for warning in found.warnings)
    assert any("no timing protocol" in warning for warning in found.warnings)


def test_one_run_a_side_decides_nothing(tmp_path: Path) -> None:
    found = compare(tmp_path, script(tmp_path, "baseline", SLOW), script(tmp_path, "candidate", FAST), n=1, warmup=0)

    assert found.verdict is VerdictKind.INCONCLUSIVE


def test_what_keeps_the_two_from_running_at_all_is_an_error(tmp_path: Path) -> None:
    good = script(tmp_path, "baseline", SLOW)

    with pytest.raises(ToolError, match="no such file"):
        compare(tmp_path, good, "nothing.py")
    with pytest.raises(ToolError, match="n=0"):
        compare(tmp_path, good, good, n=0)
    with pytest.raises(ToolError, match="HOTKERNEL_PYTHON"):
        compare_scripts(Session(root=tmp_path, environment={"HOTKERNEL_PYTHON": "/nowhere/python"}), good, good)
