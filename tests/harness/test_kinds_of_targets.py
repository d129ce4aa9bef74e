"""Targets of every kind go through a real oracle and a real worker: the baseline's own code is right, a changed one is not."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from workers import Nest, own_environment, start_zygote

from hotkernel.harness.batches import Checks
from hotkernel.harness.environment import private
from hotkernel.harness.host_batches import HostBatches
from hotkernel.harness.links import OracleLink, SideFault, WorkerLink
from hotkernel.harness.zygote import Zygote

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SLOTS = 5
QUANTISED = """
def derive(raw):
    scale = raw["w"].abs().amax(-1, keepdim=True).clamp(min=1e-6) / 127
    return {"x": raw["x"], "q": (raw["w"] / scale).round().to(torch.int8), "scale": scale}
"""
# name: the function's parameters, its body, a wrong body, the target's words, and what comes before it
KINDS = {
    "one float": ("x", "x * 2", "x * 2.01", 'inputs={"x": "16x32"}', ""),
    "half": ("x", "(x.float() * 1.7).half()", "(x.float() * 1.71).half()", 'inputs={"x": "16x32"}, dtype="fp16"', ""),
    "bfloat16": ("x", "(x.float() * 1.7).bfloat16()", "(x.float() * 1.6).bfloat16()", 'inputs={"x": "16x32"}, dtype="bf16"', ""),
    "double": ("x", "x / 3", "x / 3.000001", 'inputs={"x": "16x32"}, dtype="fp64"', ""),
    "a shared weight": ("x, w", "x * w", "x * w.abs()", 'inputs={"x": "16x32", "w": "32"}', ""),
    "two that stream": ("x, y", "x + y", "x - y", 'inputs={"x": "16x32", "y": "16x32"}, rotate=("x", "y")', ""),
    "the second streams": ("w, x", "x * w", "x + w", 'inputs={"w": "32", "x": "16x32"}, rotate=("x",)', ""),
    "integers in": ("table, at", "table[at]", "table[at.flip(0)]",
                    'inputs={"table": "64x8", "at": "16:int64<64"}, rotate=("at",)', ""),
    "booleans in": ("x, mask", "x.masked_fill(mask, 0)", "x.masked_fill(~mask, 0)",
                    'inputs={"x": "16x32", "mask": "16x32:bool"}', ""),
    "integers out": ("x", "x.argmax(-1)", "x.argmin(-1)", 'inputs={"x": "64x32"}, mixture="normal"', ""),
    "booleans out": ("x", "x > 0.5", "x > 0.4", 'inputs={"x": "64x32"}', ""),
    "a number out": ("x", "x.abs().sum()", "x.abs().sum() * 1.01", 'inputs={"x": "64x32"}, mixture="normal"', ""),
    "a row's number": ("x", "x.abs().amax(-1)", "x.amax(-1)", 'inputs={"x": "64x32"}', ""),
    "three dimensions": ("x", "x.cumsum(-1)", "x.cumsum(-2)", 'inputs={"x": "4x16x16"}', ""),
    "a transposed view": ("x", "(x * 2).t()", "(x * 2.01).t()", 'inputs={"x": "16x32"}', ""),
    "channels last": ("x", "(x * 2).contiguous(memory_format=torch.channels_last)", "x * 2", 'inputs={"x": "2x8x4x4"}', ""),
    "a part of a larger tensor": ("x", "(x.repeat(1, 2) * 2)[:, :32]", "(x.repeat(1, 2) * 3)[:, :32]",
                                  'inputs={"x": "16x32"}', ""),
    "one row for all": ("x", "(x * 2)[:1].expand(16, 32)", "(x * 3)[:1].expand(16, 32)", 'inputs={"x": "16x32"}', ""),
    "one row for all, copied": ("x", "(x * 2)[:1].expand(16, 32)", "(x * 3)[:1].expand(16, 32)",
                                'inputs={"x": "16x32"}, reuses_output=True', ""),
    "a transposed view, copied": ("x", "(x * 2).t()", "(x * 2.01).t()", 'inputs={"x": "16x32"}, reuses_output=True', ""),
    "a module with weights": ("x", "MODULE(x)", "MODULE(x) + 0.01", 'inputs={"x": "16x32"}, mixture="normal", '
                              'reference=lambda x: x @ MODULE.weight.double().t() + MODULE.bias.double()',
                              "torch.manual_seed(0)\nMODULE = torch.nn.Linear(32, 8)"),
    "derived": ("x, q, scale", "x @ (q.float() * scale).t()", "x @ q.float().t()",
                'inputs={"x": "16x32", "w": "8x32"}, derive=derive, takes=("x", "q", "scale"), rotate=("x",), mixture="normal", '
                'reference=lambda x, q, scale: x.double() @ (q.double() * scale.double()).t()', QUANTISED),
    "derived that streams": ("q, scale", "q.float() * scale", "q.float() * scale * 1.001",
                             'inputs={"x": "16x32", "w": "8x32"}, derive=derive, takes=("q", "scale"), rotate=("q",), '
                             'reference=lambda q, scale: q.double() * scale.double()',
                             QUANTISED.replace('"x": raw["x"], ', "").replace('raw["w"]', '(raw["w"] + raw["x"][:8])')),
    "answers that are no numbers": ("x", "torch.log(x)", "torch.log(x.abs())", 'inputs={"x": "16x32"}', ""),
    "an overflow": ("x", "(x.float() * 30000).half()", "(x.float() * 30000).half().clamp(-65504, 65504)",
                    'inputs={"x": "64x32"}, dtype="fp16"', ""),
    "static buffers": ("x", "torch.mul(x, 2, out=BUFFER)", "torch.mul(x, 3, out=BUFFER)",
                       'inputs={"x": "16x32"}, reuses_output=True, reference=lambda x: x * 2', "BUFFER = torch.empty(16, 32)"),
}


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


def batches_of(nest: Nest, kind: str) -> HostBatches:
    """An oracle that has loaded the target of this kind, with its secrets drawn."""
    parameters, body, _, words, head = KINDS[kind]
    folder = nest.folder / "oracle"
    file = nest.folder / "t_baseline.py"
    dtype = "" if "dtype=" in words else ', dtype="fp32"'
    file.write_text(f"import torch\nfrom hotkernel_contract import Target\n{head}\ndef run({parameters}):\n    return {body}\n"
                    f'TARGET = Target(name="t", function=run, device="cpu", {words}{dtype})\n', encoding="utf-8")
    oracle = OracleLink(nest.fork, private(own_environment(), folder, folder / "caches", ""), folder / "log", 20.0)
    oracle.ask("load", baseline=str(file), device="", threads=1)
    said = oracle.ask("describe")
    nest.layout = oracle.ask("allocate", slots=SLOTS, copies=said["reuses_output"])
    nest.files = tuple(oracle.files)
    oracle.ask("draw", size=2 * SLOTS)
    return HostBatches(oracle, Checks(returned=said["returned"]), time.monotonic(), 0)


def worker_of(nest: Nest, batches: HostBatches, kind: str, body: str) -> WorkerLink:
    parameters, _, _, _, head = KINDS[kind]
    worker = nest.worker(f"import torch\n{head}\ndef candidate({parameters}):\n    return {body}\n")
    nest.ready(worker)
    batches.ready(worker, b"")
    return worker


def run(batches: HostBatches, worker: WorkerLink) -> None:
    for picks, order in (([0, 1, 2, 3], [4, 1, 0, 2]), ([9, 8, 3, 4, 5], [0, 1, 2, 3, 4])):
        batches.run(worker, picks, order, 100.0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_baselines_own_code_is_right_and_a_changed_one_is_not(nest, kind):
    _, body, wrong, _, _ = KINDS[kind]
    batches = batches_of(nest, kind)
    run(batches, worker_of(nest, batches, kind, body))
    (check,) = batches.checks.as_checks({})
    assert check.outputs == 9
    other = worker_of(nest, batches, kind, wrong)
    with pytest.raises(SideFault) as caught:
        run(batches, other)

    assert caught.value.fault.rule in ("wrong_values", "wrong_strides")


def test_a_module_with_weights_is_the_same_in_every_process(nest):
    batches = batches_of(nest, "a module with weights")
    for _ in range(3):
        run(batches, worker_of(nest, batches, "a module with weights", "MODULE(x)"))
