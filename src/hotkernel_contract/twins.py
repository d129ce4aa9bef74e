"""Pairs of fresh processes that run the same four kernels: how far equal code lies apart; knows no candidate."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import traceback
from typing import Any, Dict, List

import torch

from hotkernel_contract.ceilings import ROTATION, in_turn
from hotkernel_contract.stopwatch import Call, Meter, clock_for

KERNELS = ("clone", "softmax", "mv", "mm")
COLUMNS = 8192
SMALL_L2_BYTES = 4 << 20  # below it, everything is small: a test on the CPU
ANSWER_S = 120.0  # a first call that loads a library from a cold disk takes long


def measure_noise(plan: Dict[str, Any], found: Dict[str, Any]) -> None:
    """The values of both sides of every pair, by kernel; must run before this process touches CUDA."""
    if not plan["noise_pairs"]:
        return
    if not hasattr(os, "fork"):
        raise RuntimeError("this system cannot fork, so fresh processes are not compared")
    pairs: Dict[str, List[List[List[float]]]] = {kernel: [] for kernel in KERNELS}
    for _ in range(plan["noise_pairs"]):
        both: List[Twin] = []
        try:
            both += [Twin(plan, both)]
            both += [Twin(plan, both)]
            for kernel in KERNELS:
                pairs[kernel].append(compare(both, kernel, plan["noise_values"]))
        finally:
            for twin in both:
                twin.end()
    found["noise"] = [{"kernel": kernel, "pairs": values} for kernel, values in pairs.items()]


def compare(both: List[Twin], kernel: str, count: int) -> List[List[float]]:
    """The values of two twins in turn, ABBA, after each has warmed up."""
    for twin in both:
        twin.ask(kernel)
    values: List[List[float]] = [[], []]
    for number in range(count):
        for side in ((0, 1) if number % 2 == 0 else (1, 0)):
            values[side].append(both[side].ask(kernel))
    return values


class Twin:
    """A forked process that answers a kernel's name with one value in us."""

    def __init__(self, plan: Dict[str, Any], others: List[Twin]) -> None:
        self.ours, theirs = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            for other in others:
                other.ours.close()
            self.ours.close()
            serve(plan, theirs)
        theirs.close()
        self.ours.settimeout(ANSWER_S)
        self.lines = self.ours.makefile("rw", encoding="utf-8")

    def ask(self, kernel: str) -> float:
        """One value of this kernel; raises RuntimeError with the twin's own words, OSError when it does not answer."""
        self.lines.write(kernel + "\n")
        self.lines.flush()
        line = self.lines.readline()
        if not line:
            raise RuntimeError("a process that was to be compared ended")
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return float(answer["us"])

    def end(self) -> None:
        """End the process."""
        with contextlib.suppress(OSError):  # it ended by itself, with a question still on its way
            self.lines.close()
        self.ours.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def serve(plan: Dict[str, Any], channel: socket.socket) -> None:
    """A twin's life: make the kernels, then answer until the channel closes; never returns."""
    lines = channel.makefile("rw", encoding="utf-8")
    meters: Dict[str, Meter] = {}
    try:
        for line in lines:
            try:
                answer: Dict[str, Any] = {"us": one_value(plan, line.strip(), meters)}
            except Exception as error:  # noqa: BLE001 - whatever a driver raises is what is told
                traceback.print_exc()
                answer = {"error": "%s: %s" % (type(error).__name__, str(error)[:500])}
            lines.write(json.dumps(answer) + "\n")
            lines.flush()
    finally:
        os._exit(0)


def one_value(plan: Dict[str, Any], kernel: str, meters: Dict[str, Meter]) -> float:
    """One slope of a kernel; the first time it is made and warmed up."""
    if kernel not in meters:
        meters[kernel] = Meter(clock_for(plan["device"]), stock_call(kernel, plan))
        meters[kernel].warm(plan["warm_s"])
    return meters[kernel].value()


def stock_call(kernel: str, plan: Dict[str, Any]) -> Call:
    """A kernel of torch's own on random data: inputs of about the L2's size, taken in turn, with outputs of their own."""
    device = plan["device"]
    l2_bytes = int(plan["l2_bytes"] or torch.cuda.get_device_properties(0).L2_cache_size)
    has_bf16 = device != "cuda" or torch.cuda.get_device_capability(0) >= (8, 0)
    kind = torch.bfloat16 if has_bf16 else torch.float16
    if kernel == "mm":
        side = 128 if l2_bytes < SMALL_L2_BYTES else 2048
        a, b, out = (torch.randn(side, side, device=device).to(kind) for _ in range(3))
        return lambda _k: torch.mm(a, b, out=out)
    rows = max(1, l2_bytes // (2 * COLUMNS))
    count = math.ceil(ROTATION * l2_bytes / (2 * rows * COLUMNS))
    xs = [torch.randn(rows, COLUMNS, device=device).to(kind) for _ in range(count)]
    outs = [torch.empty_like(x) for x in xs]
    if kernel == "clone":
        return in_turn([lambda x=x, y=y: y.copy_(x) for x, y in zip(xs, outs)])
    if kernel == "softmax":
        return in_turn([lambda x=x, y=y: torch.softmax(x, -1, out=y) for x, y in zip(xs, outs)])
    v = torch.randn(COLUMNS, device=device).to(kind)
    results = [torch.empty(rows, device=device, dtype=kind) for _ in xs]
    return in_turn([lambda x=x, y=y: torch.mv(x, v, out=y) for x, y in zip(xs, results)])
