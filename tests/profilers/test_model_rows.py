"""The rows of a model's trace: what dominates, with the inputs of its calls, in agreement with torch_trace's own account."""

from __future__ import annotations

import json
from collections import defaultdict

import pytest
from kernel_reports import OURS

from hotkernel.machine.reports import Trace
from hotkernel.profilers import model_rows, trace
from hotkernel.schema.capture import MODULE, OPERATOR, CaptureRow

STEPS, LAYERS = 3, 2
MODULES = json.loads((OURS / "decoder_modules.json").read_text(encoding="utf-8"))


def ranked(name: str = "decoder_trace.json.gz") -> model_rows.ModelRows:
    return model_rows.rank(Trace(OURS / name).events(), MODULES if name.startswith("decoder") else [])


def row(name: str) -> CaptureRow:
    return next(each for each in ranked().rows if each.name == name)


@pytest.mark.parametrize("name", ["decoder_trace.json.gz", "torch_trace.json.gz"])
def test_operators_have_the_calls_and_times_that_torch_trace_says(name: str) -> None:
    opened = Trace(OURS / name)
    found = trace.summarise(opened.events(), opened.device_names)
    calls: dict[str, int] = defaultdict(int)
    time_us: dict[str, float] = defaultdict(float)
    for op in found.ops:
        calls[op.name] += op.calls
        time_us[op.name] += op.cpu_time_us if op.device_time_us is None else op.device_time_us

    mine = [each for each in ranked(name).rows if each.kind == OPERATOR]

    assert {each.name: each.calls for each in mine} == calls
    assert {each.name: each.time_us for each in mine} == pytest.approx(time_us)
    assert ranked(name).device == ("cuda" if found.kernels else "cpu")


def test_the_shares_of_a_gpu_trace_are_of_its_kernels_time() -> None:
    opened = Trace(OURS / "torch_trace.json.gz")
    found = trace.summarise(opened.events(), opened.device_names)

    assert ranked("torch_trace.json.gz").total_us == pytest.approx(found.kernel_time_us)


def test_a_module_is_a_row_of_its_class_with_all_its_paths() -> None:
    norm = row("RMSNorm")

    assert (norm.kind, norm.calls) == (MODULE, STEPS * (2 * LAYERS + 1))
    assert set(norm.paths) == {"layers.*.norm1", "layers.*.norm2", "norm"}
    assert [(kind.inputs, kind.calls) for kind in norm.kinds] == [(("[1,16,32] float32 [512,32,1]",), norm.calls)]


def test_modules_of_one_class_with_other_inputs_are_told_apart() -> None:
    linear = row("torch.nn.Linear")

    assert sum(kind.calls for kind in linear.kinds) == linear.calls == STEPS * (6 * LAYERS + 1)
    assert {kind.inputs for kind in linear.kinds} == {("[1,16,32] float32 [512,32,1]",), ("[1,16,85] float32 [1360,85,1]",)}
    assert sum(kind.time_us for kind in linear.kinds) == pytest.approx(linear.time_us)


def test_a_modules_time_is_that_of_the_operators_inside_it() -> None:
    whole, total_us = row("Decoder"), ranked().total_us

    assert total_us is not None
    assert whole.time_us <= total_us * 1.001  # the trace's own clock has steps
    assert row("torch.nn.Linear").time_us == pytest.approx(row("aten::linear").time_us, rel=1e-3)
    assert row("Layer").time_us < whole.time_us


def test_rows_are_ranked_by_time_and_numbered() -> None:
    rows = ranked().rows

    assert [each.time_us for each in rows] == sorted((each.time_us for each in rows), reverse=True)
    assert [each.number for each in rows] == list(range(1, len(rows) + 1))
    assert rows == ranked().rows


def test_inputs_have_shape_dtype_and_strides() -> None:
    attention = row("aten::scaled_dot_product_attention")

    assert attention.kinds[0].inputs[:3] == (
        "[1,1,16,32] float32 [512,512,32,1]", "[1,1,16,32] float32 [512,512,32,1]", "[1,1,16,32] float32 [1536,32,96,1]")


@pytest.mark.parametrize(("name", "why"), [("aten::view", "a view"), ("aten::empty", "no tensor"), ("aten::linear", None),
                                           ("RMSNorm", None)])
def test_what_cannot_become_a_target_says_why(name: str, why: str | None) -> None:
    cannot = row(name).cannot

    assert why in (cannot or "") if why else cannot is None
