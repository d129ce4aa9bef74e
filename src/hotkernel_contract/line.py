"""The plain line: checks and times one function in its own process and prints JSON; self-timed, so it decides nothing."""

from __future__ import annotations

import json
import math
import os
import statistics as stats
import time
from typing import Any, Callable, Dict, List, Tuple

import torch

from hotkernel_contract.compare import Expected, Tally, Tolerance, error_fault, shape_fault, statistics
from hotkernel_contract.inputs import draw
from hotkernel_contract.target import Target, wide_for

PROTOCOL = 4
L2_UNKNOWN_BYTES = 64 << 20  # CPU caches and cards that do not say
MAX_COPIES = 512
ROUNDS = 7

Inputs = List[torch.Tensor]


def time_and_print(target: Target, function: Callable[..., torch.Tensor], impl: str) -> bool:
    """Check `function` on the target's seeded inputs, time it, print one JSON line; returns whether it was right."""
    device = target.pick_device()
    with torch.no_grad():
        sets, work = rotated_inputs(target, device)
        ok, why = check_once(target, function, sets[0])
        capture(function, sets)
        ms = (cuda_ms if device == "cuda" else cpu_ms)(function, sets, target.iters)
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
    if why:
        line["why"] = why
    print(json.dumps(line), flush=True)
    return ok


def rotated_inputs(target: Target, device: str) -> Tuple[List[Inputs], Dict[str, int]]:
    """Input sets that together outgrow the cache twice over, and the bytes of one call."""
    generator = torch.Generator(device=device)
    generator.manual_seed(target.seed)
    shared = draw(target, generator, device, tuple(n for n in target.raws if n not in target.fresh_raws))

    def one() -> Inputs:
        raw = {**draw(target, generator, device, target.fresh_raws), **shared}
        return list(target.call_inputs(raw).values())

    first = one()
    streamed = sum(x.numel() * x.element_size() for name, x in zip(target.arguments, first) if name in target.rotate)
    out = target.function(*first)
    pair_bytes = streamed + out.numel() * out.element_size()
    l2_bytes = torch.cuda.get_device_properties(0).L2_cache_size if device == "cuda" else L2_UNKNOWN_BYTES
    copies = min(MAX_COPIES, max(2, math.floor(2 * l2_bytes / max(pair_bytes, 1)) + 1))
    work = {"pair_bytes": pair_bytes, "l2_bytes": l2_bytes, "min_bytes": target.min_bytes or pair_bytes}
    return [first] + [one() for _ in range(copies - 1)], work


def check_once(target: Target, function: Callable[..., torch.Tensor], inputs: Inputs) -> Tuple[bool, str]:
    """Whether the function's output is right for these inputs, and why not."""
    baseline = target.function(*[x.clone() for x in inputs])
    kept = [x.clone() for x in inputs]
    output = function(*inputs)
    if not isinstance(output, torch.Tensor):
        return False, "it returned %s, not a tensor" % type(output).__name__
    fault = shape_fault(tuple(output.shape), str(output.dtype), tuple(output.stride()),
                        (tuple(baseline.shape), str(baseline.dtype), tuple(baseline.stride())))
    if fault:
        return False, fault[1]
    if not all(torch.equal(now.reshape(-1).view(torch.uint8), then.reshape(-1).view(torch.uint8))
               for now, then in zip(inputs, kept)):
        return False, "it changed its inputs"
    wide = wide_for(baseline.dtype)
    expected = Expected.of(target.expected(kept, wide), baseline.dtype)
    tolerance = Tolerance.of(target, baseline.dtype)
    tallies = []
    for out in (output, baseline):
        tally = Tally()
        tally.add([statistics(out, expected, tolerance).tolist()])
        tallies.append(tally)
    fault = error_fault(tallies[0], tallies[1], tolerance)
    return fault is None, fault[1] if fault else ""


def capture(function: Callable[..., torch.Tensor], sets: List[Inputs]) -> None:
    """Under a profiler (HOTKERNEL_CAPTURE is set): mark ten calls of the target, so that a report holds them and no set-up."""
    if not os.environ.get("HOTKERNEL_CAPTURE"):
        return
    on_card = sets[0][0].is_cuda
    if on_card:
        torch.cuda.synchronize()
        torch.cuda.profiler.start()
    with torch.profiler.record_function("hotkernel_target"):
        held = [function(*sets[i % len(sets)]) for i in range(10)]
        if on_card:
            torch.cuda.synchronize()
    if on_card:
        torch.cuda.profiler.stop()
    del held


def cuda_ms(function: Callable[..., torch.Tensor], sets: List[Inputs], iters: int) -> float:
    """Device time per call: the slope between two batches that are queued behind a spin before they start."""
    low, high = max(2, iters // 5), max(4, iters)
    clock_khz = getattr(torch.cuda.get_device_properties(0), "clock_rate", None) or 2_000_000
    gate_ms = 0.0
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def batch(n: int) -> float:
        torch.cuda._sleep(int(gate_ms * clock_khz))
        start.record()
        held = [function(*sets[i % len(sets)]) for i in range(n)]
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


def cpu_ms(function: Callable[..., torch.Tensor], sets: List[Inputs], iters: int) -> float:
    """Call time: the slope between two batches by perf_counter."""

    def batch(n: int) -> float:
        began = time.perf_counter()
        held = [function(*sets[i % len(sets)]) for i in range(n)]
        took = time.perf_counter() - began
        del held
        return took * 1e3

    one = min(batch(1) for _ in range(3))
    high = max(3, min(iters, int(200.0 / max(one, 1e-3))))
    low = max(1, high // 5)
    values = [(batch(high) - batch(low)) / (high - low) for _ in range(ROUNDS)]
    return max(stats.median(values), 1e-6)
