"""torch.profiler's traces: against a naive sum of their JSON, and event by event."""

import gzip
import json
from collections import Counter, defaultdict

import pytest
from kernel_reports import OURS, read

from hotkernel.profilers import trace


def kernel(name, start, length, correlation=None, **more):
    arguments = {"device": 0, "stream": 7, "correlation": correlation, **more.pop("args", {})}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": start,
        "dur": length,
        "args": arguments,
        **more,
    }


def launch(name, start, correlation, thread=1):
    return {
        "ph": "X",
        "cat": "cuda_runtime",
        "name": name,
        "pid": 9,
        "tid": thread,
        "ts": start,
        "dur": 1,
        "args": {"correlation": correlation},
    }


def operator(name, start, length, shapes=None, thread=1):
    return {
        "ph": "X",
        "cat": "cpu_op",
        "name": name,
        "pid": 9,
        "tid": thread,
        "ts": start,
        "dur": length,
        "args": {"Input Dims": shapes or []},
    }


def target(start, length):
    return {
        "ph": "X",
        "cat": "user_annotation",
        "name": "hotkernel_target",
        "pid": 9,
        "tid": 1,
        "ts": start,
        "dur": length,
    }


def test_the_trace_agrees_with_a_naive_sum_of_its_json():
    found = read(OURS / "torch_trace.json.gz")

    times, calls = defaultdict(float), Counter()
    with gzip.open(OURS / "torch_trace.json.gz", "rt", encoding="utf-8") as file:
        for event in json.load(file)["traceEvents"]:
            if event.get("cat") == "kernel":
                times[event["name"]] += event["dur"]
                calls[event["name"]] += 1
    by_hand = sorted(((round(times[name], 3), calls[name]) for name in times), reverse=True)
    assert [(row.device_time_us, row.calls) for row in found.kernels] == by_hand


def test_the_trace_gives_the_values_that_were_read_off_by_hand():
    found = read(OURS / "torch_trace.json.gz")

    assert found.n_launches == 50
    told = {row.short_name: (row.device_time_us, row.calls) for row in found.kernels}
    assert told["elementwise_kernel"] == (997.883, 10)
    assert told["unrolled_elementwise_kernel"] == (506.046, 10)
    assert told["reduce_kernel"] == (240.319, 5)
    assert told["rmsnorm_fwd_kernel"] == (171.296, 5)
    for width, time, calls in ((4, 331.037, 15), (8, 232.702, 5)):
        rows = [row for row in found.kernels if f"vectorized_elementwise_kernel<{width}" in row.name]
        assert (pytest.approx(sum(row.device_time_us for row in rows)), sum(row.calls for row in rows)) == (time, calls)
    assert found.devices[0].name == "NVIDIA H200"
    rms = next(row for row in found.kernels if row.short_name == "rmsnorm_fwd_kernel")
    assert (rms.grid, rms.block, rms.registers_per_thread, rms.avg_us) == ((4096, 1, 1), (256, 1, 1), 64, 171.296 / 5)


def test_operators_are_apart_and_hold_the_time_of_what_they_call():
    found = trace.summarise(
        [
            operator("aten::outer", 0, 100, [[4, 8], []]),
            operator("aten::inner", 10, 50, [[4, 8]]),
            launch("cudaLaunchKernel", 20, 1),
            launch("cudaLaunchKernel", 80, 2),
            kernel("f(int)", 200, 30, 1),
            kernel("g(int)", 230, 10, 2),
        ],
        {},
    )

    told = {(op.name, op.input_shapes): (op.device_time_us, op.cpu_time_us, op.pct) for op in found.ops}
    assert told == {("aten::outer", ("[4,8]",)): (40, 100, 100), ("aten::inner", ("[4,8]",)): (30, 50, 75)}
    assert sum(row.device_time_us for row in found.kernels) == 40


def test_an_operator_that_calls_itself_counts_a_kernel_once():
    found = trace.summarise(
        [
            operator("aten::add", 0, 100),
            operator("aten::add", 10, 50),
            launch("cudaLaunchKernel", 20, 1),
            kernel("f(int)", 200, 30, 1),
        ],
        {},
    )

    assert [(op.calls, op.device_time_us) for op in found.ops] == [(2, 30)]


def test_a_launch_on_another_thread_belongs_to_no_operator_of_this_one():
    found = trace.summarise(
        [operator("aten::add", 0, 100), launch("cudaLaunchKernel", 20, 1, thread=2), kernel("f(int)", 200, 30, 1)], {}
    )

    assert [op.device_time_us for op in found.ops] == [0]


def test_only_what_the_target_launched_is_counted_even_if_it_ran_later():
    found = trace.summarise(
        [
            launch("cudaLaunchKernel", 5, 1),
            kernel("set_up(int)", 10, 500, 1),
            target(100, 50),
            launch("cuLaunchKernelEx", 110, 2),
            kernel("f(int)", 510, 30, 2),
            target(300, 50),
            launch("cuLaunchKernelEx", 310, 3),
            kernel("f(int)", 540, 30, 3),
            launch("cudaLaunchKernel", 400, 4),
            kernel("check(int)", 570, 500, 4),
            operator("aten::before", 1, 3),
            operator("aten::inside", 105, 3),
        ],
        {},
    )

    assert [(row.short_name, row.calls) for row in found.kernels] == [("f", 2)]
    assert [op.name for op in found.ops] == ["aten::inside"]
    assert found.scope == trace.TARGET_SCOPE
    assert found.gpu_idle_pct == 0


def test_kernels_of_a_graph_launched_inside_the_target_are_the_targets():
    found = trace.summarise(
        [
            target(100, 50),
            launch("cudaGraphLaunch", 110, 2),
            kernel("f(int)", 510, 30, 2),
            kernel("g(int)", 545, 5, 2),
        ],
        {},
    )

    assert [(row.short_name, row.graph_calls) for row in found.kernels] == [("f", 1), ("g", 1)]


def test_concurrent_kernels_keep_a_device_busy_once():
    found = trace.summarise([kernel("f(int)", 0, 60), kernel("g(int)", 20, 60), kernel("h(int)", 90, 10)], {0: "card"})

    (device,) = found.devices
    assert (device.kernel_us, device.busy_us, device.window_us, device.idle_pct) == (130, 90, 100, pytest.approx(10))


def test_devices_are_apart():
    events = [kernel("f(int)", 0, 10), kernel("f(int)", 0, 30, args={"device": 3})]

    found = trace.summarise(events, {0: "one", 3: None})

    assert [(one.device, one.name, one.kernel_us) for one in found.devices] == [(0, "one", 10), (3, None, 30)]
    assert found.kernels[0].devices == (0, 3)


def test_negative_and_missing_durations_are_left_out_and_counted():
    events = [kernel("f(int)", 0, 10), kernel("f(int)", 5, -3), kernel("f(int)", 5, None), kernel("f(int)", 5, "x")]

    found = trace.summarise(events, {})

    assert (found.n_launches, found.kernel_time_us) == (1, 10)
    assert found.warnings == (
        "1 GPU events with a negative duration were left out",
        "2 GPU events without a duration were left out",
    )


def test_the_spelling_of_2021_is_understood():
    found = trace.summarise(
        [
            {"ph": "X", "cat": "Kernel", "name": "f(int)", "pid": 0, "tid": "stream 7", "ts": 1, "dur": 2},
            {"ph": "X", "cat": "Memcpy", "name": "Memcpy HtoD", "pid": 0, "ts": 4, "dur": 2},
        ],
        {},
    )

    assert (found.n_launches, found.copies[0].name) == (1, "Memcpy HtoD")


def test_no_kernel_is_a_reason_and_never_zero_time():
    found = trace.summarise([operator("aten::add", 0, 10)], {})

    assert (found.kernels, found.kernel_time_us) == ((), None)
    assert "no kernel in this trace" in found.reason
    assert found.ops[0].pct == 100
