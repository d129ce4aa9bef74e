"""The kernels whose speed is a card's ceiling: read, write, copy, triad, matrices, empty launches; judges no reading."""

from __future__ import annotations

import math
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

import torch

from hotkernel_contract.stopwatch import MAX_CALLS, Call, CardClock, Meter, clock_for

try:
    import triton
    import triton.language as tl
except Exception:  # noqa: BLE001 - absent, or broken in any way: torch's own kernels remain
    triton = None

# A cache that replaces at random keeps exp(-8) of what returns after eight times its size; after twice its size 20 %.
ROTATION = 8
REST_S = 0.3  # before a burst, so that the power limit has nothing to average
STRETCH_US = 50_000.0
LONGEST_CALL_US = 100_000.0
BLOCK, TIMES = 2048, 2  # of the Triton kernel: elements of one step, and steps of one program
STREAMS = {"read": 1, "copy": 2, "triad": 3, "write": 1}  # writing comes last: it leaves no random data behind
FACTOR = 3.0

if triton is not None:

    @triton.jit
    def stream(out, a, b, READS: tl.constexpr, WRITES: tl.constexpr, BLOCK: tl.constexpr, TIMES: tl.constexpr):
        """One program's part of a read, write, copy or triad; a read leaves a sum, so that nothing is optimised away."""
        program = tl.program_id(0).to(tl.int64)
        total = tl.zeros([BLOCK], tl.float32)
        for step in tl.static_range(TIMES):
            at = (program * TIMES + step) * BLOCK + tl.arange(0, BLOCK)
            value = ((at * 2654435761) & 0x7FFFFF).to(tl.float32) if READS == 0 else tl.load(a + at)
            if READS == 2:
                value += 3.0 * tl.load(b + at)
            if WRITES == 1:
                tl.store(out + at, value)
            else:
                total += value
        if WRITES == 0:
            tl.store(out + program, tl.sum(total, 0))


class Streams:
    """Random data in one block of memory, cut into sets of buffers that calls take in turn."""

    def __init__(self, plan: Dict[str, Any], l2_bytes: int) -> None:
        self.device, self.l2_bytes = plan["device"], l2_bytes
        self.triton_fault = triton_fault(self.device)
        room = plan["memory_share"] * free_bytes(self.device)
        self.sizes = [int(m * l2_bytes) for m in plan["l2_multiples"] if self._needed(m * l2_bytes) <= room]
        if not self.sizes:
            raise RuntimeError("too little memory is free to measure in: %.0f MiB" % (room / 2**20))
        elements = int(max(map(self._needed, self.sizes))) // 4
        self.pool = torch.empty(elements, device=self.device).normal_()
        self.partial = torch.empty(elements // (BLOCK * TIMES) + 1, device=self.device)

    def _needed(self, moved_bytes: float) -> float:
        return max(2 * moved_bytes, ROTATION * self.l2_bytes + moved_bytes)

    def calls(self, operation: str, moved_bytes: int, rotate: bool = True) -> Iterator[Tuple[str, Call, int]]:
        """Each kernel's name, its call and the bytes that one call really moves."""
        streams = STREAMS[operation]
        each = max(1, moved_bytes // (4 * streams * BLOCK * TIMES)) * BLOCK * TIMES
        moved = each * streams * 4
        count = max(2, math.ceil(ROTATION * self.l2_bytes / moved)) if rotate else 1
        count = min(count, self.pool.numel() // (each * streams))
        sets = [part.view(streams, each).unbind() for part in self.pool[: count * streams * each].view(count, -1)]
        yield "torch", in_turn([by_torch(operation, buffers) for buffers in sets]), moved
        if self.triton_fault is None:
            yield "triton", in_turn([by_triton(operation, buffers, self.partial) for buffers in sets]), moved


def by_torch(operation: str, buffers: Tuple[torch.Tensor, ...]) -> Callable[[], Any]:
    """One call of torch's own kernel for the operation."""
    out = buffers[0]
    if operation == "read":
        return lambda: torch.sum(out)
    if operation == "write":
        return lambda: out.fill_(FACTOR)
    if operation == "copy":
        return lambda: out.copy_(buffers[1])
    return lambda: torch.add(buffers[1], buffers[2], alpha=FACTOR, out=out)


def by_triton(operation: str, buffers: Tuple[torch.Tensor, ...], partial: torch.Tensor) -> Callable[[], Any]:
    """One call of the Triton kernel for the operation."""
    reads, writes = {"read": (1, 0), "write": (0, 1), "copy": (1, 1), "triad": (2, 1)}[operation]
    out = partial if operation == "read" else buffers[0]
    a, b = buffers[1 if operation in ("copy", "triad") else 0], buffers[-1]
    grid = (buffers[0].numel() // (BLOCK * TIMES),)
    return lambda: stream[grid](out, a, b, READS=reads, WRITES=writes, BLOCK=BLOCK, TIMES=TIMES, num_warps=8)


def triton_fault(device: str) -> Optional[str]:
    """Why the Triton kernel cannot be used here, found by using it; None where it can."""
    if triton is None or device != "cuda":
        return "no Triton, or no card"
    try:
        x = torch.zeros(BLOCK * TIMES, device=device)
        by_triton("read", (x,), x.clone())()
        torch.cuda.synchronize()
    except Exception as error:  # noqa: BLE001 - a missing compiler, an unknown card, a full disk: torch's kernels remain
        return "%s: %s" % (type(error).__name__, (str(error).strip() or "no reason given")[:300])
    return None


def in_turn(calls: List[Callable[[], Any]]) -> Call:
    """The call of a number: one after another, and round again."""
    return lambda k: calls[k % len(calls)]()


def free_bytes(device: str) -> int:
    """Memory that may be used."""
    return torch.cuda.mem_get_info()[0] if device == "cuda" else 1 << 30


def measure_streams(plan: Dict[str, Any], found: Dict[str, Any]) -> None:
    """Bandwidth by operation and size, and the copy that stays in the L2."""
    clock, streams = clock_for(plan["device"]), Streams(plan, found["l2_bytes"])
    found["bandwidth"], found["l2_copy"] = [], []
    if streams.triton_fault and triton is not None:
        found["refused"]["triton"] = streams.triton_fault

    def read(operation: str, size: int, into: List[Dict[str, Any]], rotate: bool) -> None:
        for name, call, moved in streams.calls(operation, size, rotate):
            us = Meter(clock, call).values(plan["values"])
            into.append({"operation": operation, "kernel": name, "moved_bytes": moved, "us": us})

    Meter(clock, next(streams.calls("copy", streams.sizes[-1]))[1]).warm(plan["warm_s"])
    for fraction in plan["l2_fractions"]:
        read("copy", int(fraction * streams.l2_bytes), found["l2_copy"], rotate=False)
    for operation in STREAMS:
        for size in streams.sizes:
            read(operation, size, found["bandwidth"], rotate=True)


def measure_launches(plan: Dict[str, Any], found: Dict[str, Any]) -> None:
    """One empty kernel after another, and the same with an event behind each."""
    clock = CardClock()
    events = [torch.cuda.Event() for _ in range(2 * MAX_CALLS)]

    def with_event(k: int) -> None:
        torch.cuda._sleep(0)
        events[k].record()

    bare, marked = Meter(clock, lambda _k: torch.cuda._sleep(0)), Meter(clock, with_event)
    gap_us, host_us = [], []
    for _ in range(plan["values"]):
        gap_us.append(bare.value())
        clock.batch(bare.call, bare.n2, bare.gate_us)
        host_us.append(clock.host_us / bare.n2)
    found["launch"] = {"gap_us": gap_us, "with_event_us": marked.values(plan["values"]), "host_us": host_us}


def measure_matrix(plan: Dict[str, Any], found: Dict[str, Any]) -> None:
    """Each dtype in bursts at each size, then on end at the best; a dtype that cannot be multiplied says why."""
    clock, found["matrix"] = clock_for(plan["device"]), []
    for dtype in plan["matrix"]:
        rows: List[Dict[str, Any]] = []
        try:
            for size in plan["matrix_sizes"]:
                expected_us = (size / rows[-1]["size"]) ** 3 * min(rows[-1]["burst_us"]) if rows else 0.0
                if expected_us > LONGEST_CALL_US or 24 * size**2 > plan["memory_share"] * free_bytes(plan["device"]):
                    break
                meter = Meter(clock, matrix_call(dtype, size, plan["device"]))
                time.sleep(REST_S if plan["device"] == "cuda" else 0.0)
                rows.append({"dtype": dtype, "size": size, "burst_us": meter.values(plan["values"])})
            if not rows:
                raise RuntimeError("too little memory is free")
            if plan["sustained_s"]:
                best = max(rows, key=lambda row: row["size"] ** 3 / sorted(row["burst_us"])[len(row["burst_us"]) // 2])
                call = matrix_call(dtype, best["size"], plan["device"])
                best["sustained_us"] = clock.stretch(call, max(1, int(STRETCH_US / min(best["burst_us"]))), plan["sustained_s"])
        except (RuntimeError, AttributeError, TypeError, ValueError) as error:
            found["refused"][dtype] = (str(error).strip() or type(error).__name__).split("\n")[0][:300]
        found["matrix"] += rows


def matrix_call(dtype: str, size: int, device: str) -> Call:
    """Multiplication of two random square matrices; raises where this torch or this card has none for the dtype."""
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    if dtype == "int8":
        a, b = (torch.randint(-128, 128, (size, size), device=device, dtype=torch.int8) for _ in range(2))
        return lambda _k: torch._int_mm(a, b.t())
    kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp64": torch.float64, "fp32": torch.float32,
             "tf32": torch.float32, "fp8": torch.float32}
    if dtype not in kinds:
        raise ValueError("torch has no plain matrix multiplication in %s" % dtype)
    a, b = (torch.randn(size, size, device=device, dtype=kinds[dtype]) for _ in range(2))
    if dtype == "fp8":
        one = torch.ones((), device=device)
        a, b = a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)
        return lambda _k: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)
    out = torch.empty_like(a)
    return lambda _k: torch.mm(a, b, out=out)
