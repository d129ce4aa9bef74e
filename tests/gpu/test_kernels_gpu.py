"""On a card: torch_trace, ncu and nsys see the same kernels of one script, and of a target its own calls alone."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hotkernel.errors import ToolError
from hotkernel.profilers import trace
from hotkernel.session import Session
from hotkernel.tools import kernels

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no NVIDIA driver on this machine"),
]
SOURCES = Path(__file__).parents[2] / "src"
SCRIPT = """
import torch
x = torch.ones(4096, 8192, device="cuda", dtype=torch.bfloat16)
for _ in range(4):
    y = torch.softmax(x, -1)
z = x + 1
torch.cuda.synchronize()
"""
BASELINE = """
import torch
from hotkernel_contract import Target, time_and_print
def twice_baseline(x):
    return torch.mul(x, 2)
TARGET = Target(name="twice", function=twice_baseline, inputs={"x": "4096x4096"}, dtype="bf16", device="cuda", iters=20)
if __name__ == "__main__":
    time_and_print(TARGET, twice_baseline, "baseline")
"""


@pytest.fixture
def session(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "twice_baseline.py").write_text(BASELINE, encoding="utf-8")
    return Session(root=tmp_path, environment={**os.environ, "PYTHONPATH": str(SOURCES)})


def test_torch_trace_sees_the_softmax_and_its_operator(session):
    ran = kernels.torch_trace(session, "script.py")

    top = ran.kernels[0]
    assert "softmax" in top.short_name.lower()
    assert (top.calls, ran.device, ran.reason) == (4, "cuda", None)
    assert top.pct == pytest.approx(100 * top.device_time_us / ran.total_kernel_time_us)
    assert 0 <= ran.gpu_idle_pct < 100
    operator = next(op for op in ran.ops if op.name == "aten::softmax")
    assert operator.input_shapes[0] == "[4096,8192]"
    assert operator.device_time_us == pytest.approx(top.device_time_us)


def test_ncu_and_torch_trace_agree_on_the_top_kernel_and_ncu_says_why(session):
    traced = kernels.torch_trace(session, "script.py")
    try:
        profiled = kernels.profile(session, ["python", "script.py"], tool="ncu")
    except ToolError as error:
        if "ERR_NVGPUCTRPERM" in error.message:
            pytest.skip("this machine denies counters")
        raise

    top = profiled.top[0]
    assert top.short_name == traced.kernels[0].short_name
    # ncu clears caches and isolates the launch: near, not equal.
    assert top.duration_us == pytest.approx(traced.kernels[0].avg_us, rel=0.15)
    assert (top.grid, top.block) == (traced.kernels[0].grid, traced.kernels[0].block)
    assert top.registers_per_thread == traced.kernels[0].registers_per_thread
    assert 0 < top.metrics.dram_throughput_pct <= 100
    assert top.metrics.dram_bytes_per_s > 1e9
    assert 0 < top.metrics.achieved_occupancy_pct <= top.metrics.theoretical_occupancy_pct <= 100
    assert top.metrics.spill_requests == 0
    assert top.bound_hint in ("memory", "compute", "latency")
    assert Path(profiled.report).is_file()
    again = kernels.top_kernels(session, profiled.report, n=20)
    assert [row.duration_us for row in again.kernels] == [row.duration_us for row in profiled.top]


def test_of_a_target_both_see_its_ten_calls_and_no_set_up(session):
    traced = kernels.torch_trace(session, "twice_baseline.py")

    assert (traced.scope, traced.n_launches, traced.n_kernels) == (trace.TARGET_SCOPE, 10, 1)
    try:
        profiled = kernels.profile(session, ["python", "twice_baseline.py"], tool="ncu")
    except ToolError as error:
        if "ERR_NVGPUCTRPERM" in error.message:
            pytest.skip("this machine denies counters")
        raise
    assert (profiled.scope, profiled.n_launches) == (trace.TARGET_SCOPE, 10)
    assert {row.short_name for row in profiled.top} == {traced.kernels[0].short_name}


def test_nsys_agrees_or_says_what_it_lacks(session):
    traced = kernels.torch_trace(session, "script.py")
    try:
        profiled = kernels.profile(session, ["python", "script.py"], tool="nsys")
    except ToolError as error:
        if "libdw1" in error.fix or "not on this machine" in error.message:
            pytest.skip(error.message)
        raise

    assert profiled.top[0].short_name == traced.kernels[0].short_name
    assert profiled.top[0].calls == 4
    assert profiled.top[0].avg_us == pytest.approx(traced.kernels[0].avg_us, rel=0.1)


def test_kernels_of_a_cuda_graph_are_rows_and_known_as_such(session, tmp_path):
    (tmp_path / "graph.py").write_text(
        "import torch\nx = torch.ones(4096, 4096, device='cuda')\ny = torch.softmax(x, -1)\ntorch.cuda.synchronize()\n"
        "graph = torch.cuda.CUDAGraph()\nwith torch.cuda.graph(graph):\n    y = torch.softmax(x, -1)\n"
        "for _ in range(3):\n    graph.replay()\ntorch.cuda.synchronize()\n",
        encoding="utf-8",
    )

    top = kernels.torch_trace(session, "graph.py").kernels[0]

    assert "softmax" in top.short_name.lower()
    assert (top.calls, top.graph_calls) == (4, 3)
