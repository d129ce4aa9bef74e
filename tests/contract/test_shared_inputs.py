"""What the calls of a batch share: small inputs are each call's own, and of the others it is said that they are shared."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from hotkernel_contract.loaded_target import LoadedTarget
from hotkernel_contract.pool import Pool

BASELINE = """
import torch
from hotkernel_contract import Target

def f(x, {names}):
    return x * sum(each.float().sum() for each in ({names},))

TARGET = Target(name="t", function=f, inputs={{"x": "256x256", {inputs}}}, dtype="fp32", device="cpu"{more})
"""
MODULE = """
import torch
from hotkernel_contract import Target

TARGET = Target(name="t", function=torch.nn.LayerNorm(256), inputs={"x": "256x256"}, dtype="fp32", device="cpu")
"""


def loaded(folder: Path, text: str) -> LoadedTarget:
    file = folder / "t_baseline.py"
    file.write_text(text, encoding="utf-8")
    made = LoadedTarget(str(file), "cpu", "")
    made.observe()
    return made


def of(folder: Path, *inputs: str, more: str = "") -> LoadedTarget:
    names = [f"w{at}" for at in range(len(inputs))]
    said = ", ".join(f'"{name}": "{spec}"' for name, spec in zip(names, inputs, strict=True))
    return loaded(folder, BASELINE.format(names=", ".join(names), inputs=said, more=more))


@pytest.mark.parametrize(("inputs", "more", "small", "is_shared"), [
    (["256"], "", ("w0",), False),
    (["256", "16:int64<9", "1"], "", ("w0", "w1", "w2"), False),
    (["257"], "", (), True),
    (["256", "257"], "", ("w0",), True),
    (["8"] * 4, "", ("w0", "w1", "w2", "w3"), False),
    (["8"] * 5, "", (), True),
    (["256"], ', static="w0"', (), False),
    (["256"], ', rotate=("x", "w0")', (), False),
], ids=["small", "three", "too large", "one too large", "four", "too many", "static", "streams"])
def test_small_inputs_are_each_calls_own_and_others_are_told(tmp_path, inputs, more, small, is_shared):
    made = of(tmp_path, *inputs, more=more)

    assert made.target.small == small
    assert made.describe()["is_shared"] is is_shared
    assert made.describe()["rotate"] == (["x", "w0"] if "rotate" in more else ["x"])


def test_a_modules_weights_stay_shared(tmp_path):
    made = loaded(tmp_path, MODULE)

    assert made.target.small == ()
    assert made.describe()["is_shared"] is True


def test_what_is_small_is_another_in_every_entry_and_of_the_same_kind_as_before(tmp_path):
    made = of(tmp_path, "256")
    pool = Pool(made.target, "cpu", made.seen.dtypes)
    pool.draw(8)
    drawn = [pool.inputs(at)["w0"] for at in range(8)]
    pool.draw(8, "zeros")

    assert not any(torch.equal(a, b) for at, a in enumerate(drawn) for b in drawn[at + 1:])
    assert all(0.5 < each.std() < 2 for each in drawn)  # as a weight is: no row of a mixture
    assert all(pool.inputs(at)["w0"].any() and not pool.inputs(at)["x"].any() for at in range(8))
