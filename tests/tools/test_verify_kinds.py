"""Whole verifies of targets with cases, several baselines, prepared weights: what the answer, the record and the board say."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "harness"))
from varied_targets import VARIED
from verifying import Workshop

from hotkernel.errors import ToolError
from hotkernel.judge.verdict import decide
from hotkernel.records import comparisons
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.verdict import Side, VerdictKind
from hotkernel.tools.audit import audit
from hotkernel.tools.records import record
from hotkernel.tools.speed import judge

BASELINE = """
import torch
from hotkernel_contract import Target

def twist(x, w):
    for _ in range(6):
        y = torch.sin(x) * w
    return y

TARGET = Target(name="twist", function=twist, inputs={"x": "64x1024", "w": "1024"}, dtype="fp32", device="cpu",
                cases={"rows": {}, "half": {"dtype": "bf16"}, "small": {"inputs": {"x": "32x1024"}}})
"""
FASTER = "import torch\n\ndef twist_candidate(x, w):\n    return torch.sin(x) * w\n"
WRONG_IN_ONE = "import torch\n\ndef twist_candidate(x, w):\n    return torch.sin(x) * w * (1.01 if x.shape[0] == 32 else 1.0)\n"
MODULE = """
import torch
from hotkernel_contract import Target

class Twist(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.line = torch.nn.Linear(256, 256)

    def forward(self, x):
        for _ in range(6):
            y = torch.tanh(self.line(x))
        return y

TARGET = Target(name="twist", function=Twist, inputs={"x": "64x256"}, dtype="fp32", device="cpu", mixture="normal",
                static=("weights",))
"""
PREPARED = """
import torch

def setup(weights):
    return {"weights": (weights["line.weight"].t().contiguous(), weights["line.bias"])}

def twist_candidate(x, weights):
    turned, bias = weights
    return torch.tanh(torch.addmm(bias, x, turned))
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory):
    shop = Workshop(tmp_path_factory.mktemp("kinds"))
    yield shop
    shop.close()


def judged(shop: Workshop, source: str, baseline: str, name: str) -> Comparison:
    """A quick verify: three pairs at most with few values."""
    files = {Side.BASELINE: shop.write(f"{name}/twist_baseline.py", baseline),
             Side.CANDIDATE: shop.write(f"{name}/{abs(hash(source)):x}/twist_candidate.py", source)}
    return judge(shop.session(), files, n=3, timeout=180, values_per_pair=4)


@pytest.fixture(scope="module")
def over_cases(shop: Workshop) -> Comparison:
    return judged(shop, FASTER, BASELINE, "cases")


def test_every_case_has_a_verdict_of_its_own_and_the_whole_is_made_of_them(shop, over_cases):
    assert [case.case for case in over_cases.cases] == ["rows", "half", "small"]
    assert [case.dtype for case in over_cases.cases] == ["torch.float32", "torch.bfloat16", "torch.float32"]
    assert over_cases.cases[2].shapes["x"] == [32, 1024]
    for case in over_cases.cases:
        part = comparisons.load(shop.state, case.id)
        assert part.evidence is not None
        assert decide(part.evidence).kind is part.verdict is case.verdict
        assert (part.case, part.case_names) == (case.case, ("rows", "half", "small"))
    assert over_cases.verdict in (VerdictKind.FASTER, VerdictKind.INCONCLUSIVE)
    if over_cases.speedup is not None:
        assert min(c.speedup for c in over_cases.cases) <= over_cases.speedup <= max(c.speedup for c in over_cases.cases)
    assert {check.side: check.ok for check in over_cases.checks} == {"baseline": True, "candidate": True}
    assert all(check.rounds for check in over_cases.checks)


def test_the_cases_are_kept_on_the_board_and_proved_by_the_audit(shop, over_cases):
    made = record(shop.session(), "twist", over_cases.id, note="all cases")
    board = Path(made.leaderboard).read_text(encoding="utf-8")

    assert [line.split("|")[1].strip() for line in board.splitlines() if "↳" in line] == ["↳ rows", "↳ half", "↳ small"]
    assert "x 32x1024 w 1024 float32" in board
    found = audit(shop.session(), "twist")
    assert found.ok, found.faulty
    assert found.recomputed == 1


def test_a_part_of_a_target_cannot_stand_for_the_whole_on_the_board(shop, over_cases):
    with pytest.raises(ToolError, match="of the case 'rows' alone"):
        record(shop.session(), "twist", over_cases.cases[0].id)


def test_the_audit_finds_a_case_whose_verdict_was_edited(shop, over_cases):
    from hotkernel.tools.audit import _of_cases, _proved

    saved = comparisons.load(shop.state, over_cases.id)
    edited = replace(saved, cases=(replace(saved.cases[0], verdict=VerdictKind.SLOWER), *saved.cases[1:]))

    assert list(_of_cases(saved, _proved(saved))) == []
    assert any("case rows says slower" in words for words in _of_cases(edited, _proved(edited)))


def test_what_is_wrong_in_one_case_is_incorrect_by_that_cases_name(shop):
    answer = judged(shop, WRONG_IN_ONE, BASELINE, "cases")

    assert (answer.verdict, answer.rule) == (VerdictKind.INCORRECT, "wrong_values")
    assert answer.reason.startswith("case small: ")
    assert answer.speedup is None


def test_prepared_weights_are_timed_apart(shop):
    answer = judged(shop, PREPARED, MODULE, "module")

    assert answer.verdict in (VerdictKind.FASTER, VerdictKind.INCONCLUSIVE), answer.reason
    assert answer.setup_ms is not None
    assert list(answer.setup_ms) == ["candidate"]
    assert answer.setup_ms["candidate"] > 0


def test_the_verdict_is_against_the_fastest_of_several_baselines(shop):
    several = BASELINE.replace('cases={"rows": {}, "half": {"dtype": "bf16"}, "small": {"inputs": {"x": "32x1024"}}}',
                               'baselines={"once": lambda x, w: torch.sin(x) * w}')
    answer = judged(shop, FASTER, several, "several")

    assert answer.baseline_name == "once"
    assert set(answer.baselines_ms or {}) == {"baseline", "once"}
    assert answer.verdict is VerdictKind.INCONCLUSIVE


@pytest.mark.parametrize("name", VARIED)
def test_an_untouched_candidate_of_any_kind_is_neither_faster_nor_refused(shop, name):
    varied = VARIED[name]
    folder = f"varied{list(VARIED).index(name)}"
    answer = judged(shop, varied.baseline() + "\ncandidate = TARGET.function\n", varied.baseline(), folder)

    assert answer.verdict in (VerdictKind.INCONCLUSIVE, VerdictKind.SLOWER), answer.reason
    assert {check.side: check.ok for check in answer.checks} == {"baseline": True, "candidate": True}
