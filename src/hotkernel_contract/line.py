"""The plain line: checks and times one function in its own process and prints JSON; self-timed, so it decides nothing."""

from __future__ import annotations

import json
import math
import os
import statistics as stats
import sys
import time
from typing import Any, Callable, Dict, List, Tuple

import torch

from hotkernel_contract.call import NotTensors
from hotkernel_contract.compare import Expected, Tally, Tolerance, error_fault, shape_fault, statistics
from hotkernel_contract.inputs import draw, like
from hotkernel_contract.room import with_room
from hotkernel_contract.target import Target, wide_for

PROTOCOL = 4
L2_UNKNOWN_BYTES = 64 << 20  # CPU caches and cards that do not say
MAX_COPIES = 512
ROUNDS = 7

Inputs = Dict[str, torch.Tensor]
OneCall = Callable[[], Any]


def time_and_print(target: Target, function: Callable[..., Any], impl: str) -> bool:
    """Check `function` on the target's seeded inputs, time it, print one JSON line; returns whether it was right.

    Of several cases, the first; `HOTKERNEL_CASE` names another.
    """
    if target.cases:
        target = target.of_case(os.environ.get("HOTKERNEL_CASE") or next(iter(target.cases)))
    device = target.pick_device()
    target.settle(device)
    with torch.no_grad():
        sets, work = rotated_inputs(target, device)
        prepare = preparing(target, function)
        ok, why = check_once(target, function, sets[0], prepare)
        calls = calls_of(target, function, sets, prepare)
        capture(calls, device)
        ms = (cuda_ms if device == "cuda" else cpu_ms)(calls, target.iters)
    first = target.raws[target.rotate[0]] if target.rotate[0] in target.raws else next(iter(target.raws.values()))
    line: Dict[str, Any] = {
        "ms": ms, "ok": ok, "shape": list(first.shape), "dtype": str(first.dtype), "iters": target.iters,
        "seed": target.seed, "protocol": PROTOCOL,
        "timing": "slope of two batches over rotated inputs, %s; self-timed" % (
            "device time by CUDA events behind a gate" if device == "cuda" else "call time by perf_counter"),
        "target": target.name, "shapes": {name: list(raw.shape) for name, raw in target.raws.items()},
        "rotate": list(target.rotate), "rtol": target.rtol, "atol": target.atol,
        "reference": target.reference_name or "the baseline in %s" % str(wide_for(first.dtype)),
        "rotation_k": len(sets), "rotation_bytes": len(sets) * work["pair_bytes"], "l2_bytes": work["l2_bytes"],
        "min_bytes": work["min_bytes"], "flops": target.flops,
        "achieved_gbs_lower_bound": work["min_bytes"] / ms / 1e6 if ms > 0 else None,
        "device": device, "gpu": torch.cuda.get_device_name() if device == "cuda" else None,
        "torch": torch.__version__, "impl": impl,
    }
    line.update({"case": target.case} if target.case else {}, **({"why": why} if why else {}))
    print(json.dumps(line), flush=True)
    return ok


def rotated_inputs(target: Target, device: str) -> Tuple[List[Inputs], Dict[str, int]]:
    """Input sets that together outgrow the cache twice over, and the bytes of one call."""
    generator = torch.Generator(device=device)
    generator.manual_seed(target.seed)
    shared = draw(target, generator, device, tuple(n for n in target.raws if n not in target.fresh_raws))

    def one() -> Inputs:
        return target.call_inputs({**draw(target, generator, device, target.fresh_raws), **shared})

    first = one()
    streamed = sum(x.numel() * x.element_size() for name, x in first.items() if name in target.rotate)
    out = sum(y.numel() * y.element_size() for y in target.run({name: like(x) for name, x in first.items()}).values())
    pair_bytes = streamed + out
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size if device == "cuda" else L2_UNKNOWN_BYTES
    copies = min(MAX_COPIES, max(2, math.floor(2 * l2_bytes / max(pair_bytes, 1)) + 1))
    work = {"pair_bytes": pair_bytes, "l2_bytes": l2_bytes, "min_bytes": target.min_bytes or pair_bytes}
    return [first] + [one() for _ in range(copies - 1)], work


def preparing(target: Target, function: Callable[..., Any]) -> Callable[[Dict[str, Any]], Dict[str, Any]]:
    """What the function's own file prepares from the inputs that are declared static, where it has a `setup`."""
    setup = getattr(sys.modules.get(getattr(function, "__module__", "")), "setup", None)
    if not (target.static and setup):
        return lambda values: values
    return lambda values: target.call.prepared(setup, values)


def calls_of(target: Target, function: Callable[..., Any], sets: List[Inputs],
             prepare: Callable[[Dict[str, Any]], Dict[str, Any]]) -> List[OneCall]:
    """A call of each set; what is shared is one object in all of them, prepared once."""
    shared = prepare(target.call.values({name: x for name, x in sets[0].items() if name not in target.rotate}))
    run = target.call.runner(function)

    def one(inputs: Inputs) -> OneCall:
        streamed = {name: x for name, x in inputs.items() if name in target.rotate}
        arguments = target.call.arguments({**shared, **target.call.values(streamed)})
        return lambda: run(arguments)

    return [one(inputs) for inputs in sets]


def check_once(target: Target, function: Callable[..., Any], inputs: Inputs,
               prepare: Callable[[Dict[str, Any]], Dict[str, Any]] = lambda values: values) -> Tuple[bool, str]:
    """Whether the function's outputs are right for these inputs, and why not."""
    right = target.run({name: like(x) for name, x in inputs.items()})
    mine = {name: like(x) for name, x in inputs.items()}
    values = prepare(target.call.values(mine))
    try:
        outputs = target.call.outputs(target.call.runner(function)(target.call.arguments(values)), values)
    except NotTensors as error:
        return False, str(error)
    outputs = {**outputs, **{name: mine[name] for name in target.writes}}
    if list(outputs) != list(right):
        return False, "it returned %s, the baseline %s" % (", ".join(outputs) or "nothing", ", ".join(right) or "nothing")
    for name, x in mine.items():
        if name not in target.writes and not torch.equal(*(t.reshape(-1).view(torch.uint8) for t in (x, inputs[name]))):
            return False, "it changed its inputs: %s" % name
    answers = target.expected(inputs, wide_for(*(y.dtype for y in right.values())))
    for name, output in outputs.items():
        fault = fault_of(target, output, right[name], answers[name], "" if len(outputs) == 1 else name)
        if fault:
            return False, fault
    return True, ""


def fault_of(target: Target, output: torch.Tensor, right: torch.Tensor, answer: torch.Tensor, shown: str) -> str:
    """Why one output is not what the baseline's is, or nothing."""
    fault = shape_fault(tuple(output.shape), str(output.dtype), tuple(output.stride()),
                        (tuple(right.shape), str(right.dtype), tuple(right.stride())), shown)
    if fault:
        return fault[1]
    expected = Expected.of(answer, right.dtype)
    (tolerance,) = with_room(target, [Tolerance.of(target, right.dtype)], [([right], [expected])])
    tallies = []
    for out in (output, right):
        tally = Tally()
        tally.add([statistics(out, expected, tolerance).tolist()])
        tallies.append(tally)
    fault = error_fault(tallies[0], tallies[1], tolerance)
    return "%s%s" % (shown + ": " if shown else "", fault[1]) if fault else ""


def capture(calls: List[OneCall], device: str) -> None:
    """Under a profiler (HOTKERNEL_CAPTURE is set): mark ten calls of the target, so that a report holds them and no set-up."""
    if not os.environ.get("HOTKERNEL_CAPTURE"):
        return
    on_card = device == "cuda"
    if on_card:
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
    with torch.profiler.record_function("hotkernel_target"):
        held = [calls[i % len(calls)]() for i in range(10)]
        if on_card:
            torch.cuda.synchronize()
    if on_card:
        torch.cuda.profiler.stop()
    del held


def cuda_ms(calls: List[OneCall], iters: int) -> float:
    """Device time per call: the slope between two batches that are queued behind a spin before they start."""
    low, high = max(2, iters // 5), max(4, iters)
    clock_khz = getattr(torch.cuda.get_device_properties(0), "clock_rate", None) or 2_000_000
    gate_ms = 0.0
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def batch(n: int) -> float:
        torch.cuda._sleep(int(gate_ms * clock_khz))
        start.record()
        held = [calls[i % len(calls)]() for i in range(n)]
        end.record()
        torch.cuda.synchronize()
        del held
        return start.elapsed_time(end)

    batch(low)
    began = time.perf_counter()
    batch(high)
    gate_ms = min(500.0, 2e3 * (time.perf_counter() - began) + 1.0)
    values = [(batch(high) - batch(low)) / (high - low) for _ in range(ROUNDS)]
    return stats.median(values)


def cpu_ms(calls: List[OneCall], iters: int) -> float:
    """Call time: the slope between two batches by perf_counter."""

    def batch(n: int) -> float:
        began = time.perf_counter()
        held = [calls[i % len(calls)]() for i in range(n)]
        took = time.perf_counter() - began
        del held
        return took * 1e3

    one = min(batch(1) for _ in range(3))
    high = max(3, min(iters, int(200.0 / max(one, 1e-3))))
    low = max(1, high // 5)
    values = [(batch(high) - batch(low)) / (high - low) for _ in range(ROUNDS)]
    return max(stats.median(values), 1e-6)
