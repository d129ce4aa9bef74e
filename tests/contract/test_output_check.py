"""Whose fault a wrong output is: a side's own, or the target's where its baseline is as wrong on the same input."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hotkernel_contract.loaded_target import LoadedTarget
from hotkernel_contract.output_check import OutputCheck
from hotkernel_contract.pool import Pool

COARSE = """import torch
from hotkernel_contract import Target

def doubled(x):
    y = x * 2
    return torch.where(x > 100, y * 1.001, y)

TARGET = Target(name="doubled", function=doubled, reference=lambda x: x * 2, inputs={"x": "16x64"}, dtype="fp32",
                device="cpu", mixture="normal")
"""


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedTarget:
    (tmp_path / "doubled_baseline.py").write_text(COARSE, encoding="utf-8")
    loaded = LoadedTarget(str(tmp_path / "doubled_baseline.py"), "cpu", "")
    loaded.observe()
    return loaded


def is_the_targets(loaded: LoadedTarget, wrong_entries: tuple[int, ...]) -> bool:
    """After a batch of a candidate that is wrong as the baseline is where the input is large, and wrong in these entries."""
    pool = Pool(loaded.target, "cpu", loaded.seen.dtypes)
    pool.draw(4)
    pool.rotated[1]["x"][3, 5] = 500.0
    pool.expected[1][0].value[3, 5] = 1000.0
    outputs = [loaded.answer(pool.inputs(at)) for at in range(4)]
    for at in wrong_entries:
        outputs[at][0][0, 0] += 1.0
    check = OutputCheck(["output"], loaded.tolerances, on_card=False)
    fault = check.fault_of("candidate", list(range(4)), outputs, pool.expected)
    assert fault is not None
    assert fault[0] == "wrong_values"
    return check.is_the_targets(fault, loaded, pool)


def test_what_the_baseline_gets_wrong_too_is_the_targets_fault(loaded):
    assert is_the_targets(loaded, ()) is True


def test_a_side_that_is_wrong_where_the_baseline_is_right_is_wrong_itself(loaded):
    assert is_the_targets(loaded, (2,)) is False


def test_another_fault_than_a_wrong_value_is_never_the_targets(loaded):
    pool = Pool(loaded.target, "cpu", loaded.seen.dtypes)
    check = OutputCheck(["output"], loaded.tolerances, on_card=False)
    check.wrong = [0]

    assert check.is_the_targets(("less_precise", ""), loaded, pool) is False
    assert check.is_the_targets(None, loaded, pool) is False


def answered(loaded: LoadedTarget, check: OutputCheck, pool: Pool, side: str, roughness: int) -> None:
    """One batch of a side, rounded to so many parts of 2^12; never wrong by element."""
    outputs = []
    for at in range(4):
        x = pool.inputs(at)["x"]
        outputs.append([x * 2 * (1 + (torch.rand_like(x) - 0.5) * roughness * 2**-16)])
    assert check.fault_of(side, list(range(4)), outputs, pool.expected) is None


def drawn(check: OutputCheck, pool: Pool) -> None:
    check.new_drawing(pool.draw(4))


@pytest.fixture
def compared(loaded: LoadedTarget) -> tuple[LoadedTarget, OutputCheck, Pool]:
    return loaded, OutputCheck(["output"], loaded.tolerances, on_card=False), Pool(loaded.target, "cpu", loaded.seen.dtypes)


def test_precision_is_compared_where_it_was_counted_alone(compared):
    loaded, check, pool = compared
    for _ in range(20):  # a warm-up, or batches that are void: exact
        drawn(check, pool)
        answered(loaded, check, pool, "candidate", 1)
        answered(loaded, check, pool, "baseline", 1)
    drawn(check, pool)
    answered(loaded, check, pool, "candidate", 8)
    assert check.count() == {}
    answered(loaded, check, pool, "baseline", 1)

    assert check.count()["candidate"][0] == "less_precise"  # told when the baseline has answered, the last batch's too


def test_what_is_exact_in_other_drawings_makes_up_for_none(compared):
    loaded, check, pool = compared
    for roughness in (*[1] * 20, 3):
        drawn(check, pool)
        answered(loaded, check, pool, "candidate", roughness)
        assert check.count() == {}
        answered(loaded, check, pool, "baseline", 1)
        found = check.count()

    assert found["candidate"][0] == "less_precise"


def test_a_batch_counts_once(compared):
    loaded, check, pool = compared
    drawn(check, pool)
    answered(loaded, check, pool, "candidate", 1)
    answered(loaded, check, pool, "baseline", 1)
    check.count()
    check.count()

    assert check.paired[0].of("candidate")[0].outputs == 0
    drawn(check, pool)
    for side in ("candidate", "baseline"):
        answered(loaded, check, pool, side, 1)
        check.count()
    assert check.paired[0].of("candidate")[0].outputs == 4
