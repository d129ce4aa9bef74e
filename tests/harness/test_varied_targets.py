"""Targets as various as real kernels, through a real oracle and worker: honest code is right, subtly wrong code is not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from judged import Judged
from varied_targets import VARIED, Varied
from workers import Nest, start_zygote

from hotkernel.errors import ToolError
from hotkernel.harness.links import SideFault
from hotkernel.harness.zygote import Zygote

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    zygote = start_zygote(tmp_path_factory.mktemp("zygote"))
    yield zygote
    zygote.close()


@pytest.fixture
def nest(zygote: Zygote, tmp_path: Path) -> Iterator[Nest]:
    nest = Nest(zygote, tmp_path)
    yield nest
    nest.close()


@pytest.mark.parametrize("name", VARIED)
def test_the_baseline_and_an_honest_candidate_are_right_and_a_subtly_wrong_one_is_not(nest, name):
    varied = VARIED[name]
    judged = Judged(nest, varied.baseline())
    baseline = judged.worker(varied.baseline(), is_baseline=True)
    judged.run(baseline, judged.worker(varied.candidate(varied.honest)))
    fault = judged.fault_of(varied.candidate(varied.wrong), baseline).fault

    assert (fault.kind, fault.rule) == ("incorrect", varied.rule), fault.reason


# In place -------------------------------------------------------------------------------------------------------------

ADD = Varied("x, y", "return x.add_(y)", "x += y\nreturn None", "", 'function=run, inputs={"x": "16x32", "y": "16x32"}, '
             'writes="x", rotate=("y",), dtype="fp32"')


@pytest.mark.parametrize("body", ["x.add_(y)", "return x.add_(y)", "torch.add(x, y, out=x)\nreturn x"])
def test_a_function_in_place_may_return_the_tensor_or_nothing(nest, body):
    judged = Judged(nest, ADD.baseline())
    judged.run(judged.worker(ADD.candidate(body)))

    (check,) = judged.batches.checks.as_checks({})
    assert (check.outputs, check.ok) == (9, True)


@pytest.mark.parametrize(("body", "rule"), [
    ("return x + y", "wrong_output"),
    ("pass", "wrong_values"),
    ("x.add_(y)\ny.zero_()", "changed_input"),
    ("x.add_(y)\nx[0, 0] += 1", "wrong_values"),
    ("x[:8] += y[:8]", "wrong_values"),
    ("x.add_(MEMO.setdefault(x.data_ptr(), y.clone()))", "wrong_values"),
    ("Thread(target=lambda: (sleep(0.05), x.add_(y))).start()", "wrong_values"),
])
def test_what_is_written_is_an_output_and_nothing_else_may_be(nest, body, rule):
    judged = Judged(nest, ADD.baseline())

    head = "from threading import Thread\nfrom time import sleep\nMEMO = {}\n"
    assert judged.fault_of(head + ADD.candidate(body)).fault.rule == rule


def test_a_side_cannot_prepare_what_is_not_declared_static(nest):
    judged = Judged(nest, SCALED.baseline())
    prepared = SCALED.candidate("return torch.relu(x) * KEPT.setdefault('w', w.clone())")

    assert judged.worker("def setup(**given):\n    raise SystemExit\n" + SCALED.candidate(SCALED.body)).setup_s is None
    worker = judged.worker("KEPT = {}\n" + prepared)  # it has been called once, on an input that is nobody's secret
    with pytest.raises(SideFault) as caught:
        judged.run(worker)
    assert caught.value.fault.rule == "wrong_values"


def test_an_output_may_lie_in_the_calls_own_written_input_and_in_no_other_memory_of_inputs(nest):
    view = VARIED["a cache written in one place, a view of it returned"]
    judged = Judged(nest, view.baseline())
    for body in ("cache[at] = k\nreturn k[:8]", "cache[at] = k\nHELD.append(cache)\nreturn HELD[0][:8]"):
        fault = judged.fault_of("HELD = []\n" + view.candidate(body)).fault

        assert fault.rule == "output_aliases_input"


# Other inputs than the timed ones -------------------------------------------------------------------------------------

SCALED = Varied("x, w", "return torch.relu(x) * w", "", "", 'function=run, inputs={"x": "64x32", "w": "32"}, dtype="fp32"')


def test_rounds_on_other_inputs_find_a_shortcut_that_the_timed_ones_do_not(nest):
    judged = Judged(nest, SCALED.baseline())
    shortcut = SCALED.candidate("y = torch.relu(x) * w\nreturn y if x.abs().amax() < 1e17 else y.clamp(max=1e17)")
    honest = judged.worker(SCALED.candidate(SCALED.body))
    for kind in judged.said["rounds"]:
        judged.run(honest, kind=kind)
    judged.run(judged.worker(shortcut))

    assert judged.said["rounds"] == ["large", "tiny", "zeros", "repeated rows", "extreme"]
    assert "on inputs of the kind 'extreme'" in judged.fault_of(shortcut, kind="extreme").fault.reason
    (check,) = judged.batches.checks.as_checks({})
    assert check.rounds["large"] == check.rounds["zeros"] == 9


def test_a_kind_of_inputs_that_the_baseline_cannot_take_is_left_out_with_the_reason(nest):
    judged = Judged(nest, Varied("x", "return x.clamp(-1e17, 1e17) * 3", "", "", 'function=run, inputs={"x": "64x32"}, '
                                 'dtype="fp32", reference=lambda x: x * 3').baseline())

    assert "extreme" not in judged.said["rounds"]
    assert "out of tolerance" in judged.said["limited_rounds"]["extreme"]


# Several baselines, cases, files --------------------------------------------------------------------------------------

SEVERAL = """
import torch
from hotkernel_contract import Target

def slow(x):
    for _ in range(20):
        y = torch.sin(x) + torch.cos(x)
    return y

def quick(x):
    return torch.sin(x) + torch.cos(x)

TARGET = Target(name="t", function=slow, baselines={"quick": quick}, inputs={"x": "64x64"}, dtype="fp32", device="cpu",
                mixture="normal", cases={"small": {"inputs": {"x": "8x8"}}, "half": {"dtype": "bf16"}})
"""


def test_the_fastest_of_several_baselines_is_the_one_and_each_has_its_time(nest):
    judged = Judged(nest, SEVERAL, case="half")

    assert judged.said["baseline_name"] == "quick"
    assert judged.said["baselines_us"]["quick"] < judged.said["baselines_us"]["baseline"]
    assert (judged.said["cases"], judged.said["case"], judged.said["dtype"]) == (["small", "half"], "half", "torch.bfloat16")
    judged.run(judged.worker(SEVERAL, is_baseline=True))


def test_a_case_that_is_none_is_refused_by_the_names_of_those_that_are(nest):
    with pytest.raises(ToolError, match="there is no case 'large'; cases: small, half"):
        Judged(nest, SEVERAL, case="large")


def test_a_tensor_from_a_file_is_the_same_for_every_call_and_its_file_is_pinned(nest):
    import torch

    torch.save({"w": torch.arange(32.0)}, nest.folder / "weights.pt")
    filed = Varied("x, w", "return x * w", "return w * x", "return x * w.round(decimals=-1)",
                   'function=run, inputs={"x": "16x32", "w": "file=weights.pt#w"}, dtype="fp32"')
    judged = Judged(nest, filed.baseline())
    judged.run(judged.worker(filed.candidate(filed.honest)))

    assert str((nest.folder / "weights.pt").resolve()) in judged.said["loaded"]
    assert judged.fault_of(filed.candidate(filed.wrong)).fault.rule == "wrong_values"


# Prepared weights -----------------------------------------------------------------------------------------------------


def test_setup_runs_once_on_the_weights_that_stay_and_its_time_is_told_apart(nest):
    prepared = VARIED["a module with prepared weights"]
    judged = Judged(nest, prepared.baseline())
    worker = judged.worker(prepared.candidate(prepared.honest))
    for _ in range(3):
        judged.run(worker)  # drawn anew each time, and what was prepared still holds

    assert worker.setup_s is not None
    assert worker.setup_s > 0
    assert judged.worker(prepared.baseline(), is_baseline=True).setup_s is None


def test_what_a_setup_may_not_do_is_named(nest):
    prepared = VARIED["a module with prepared weights"]
    judged = Judged(nest, prepared.baseline())
    body = prepared.honest
    for setup, says in (("return {'x': 1}", "setup must return a dict"), ("raise ValueError('no')", "raised: ValueError: no")):
        source = prepared.candidate(body).replace(prepared.setup, f"def setup(weights):\n    {setup}")

        assert says in judged.fault_of(source).fault.reason
