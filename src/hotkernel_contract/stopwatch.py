"""Times calls within one process: a spin as gate, events around two batches, the slope between them; for trusted code alone.

A judge's clock lies in another process (docs/timing.md); this one serves calibration, where nobody gains by lying.
"""

from __future__ import annotations

import math
import time
from typing import Any, Callable, List

import torch

MIN_WORK_US, MAX_BATCH_US = 2_000.0, 20_000.0  # between the two batches of a value; a tick of CUDA's events is 0.5 us
MIN_CALLS, MAX_CALLS = 8, 200  # the launch queue holds about a thousand, and a call may launch three
GATE_MARGIN, GATE_SPARE_US, MAX_GATE_US, GATE_TRIES = 1.6, 300.0, 500_000.0, 5
WARM_AGREE = 0.005
SMALLEST_US = 0.1

Call = Callable[[int], Any]  # one call, on the buffers that belong to its number


class CardClock:
    """Device time of a batch whose calls were all queued before the first of them began."""

    def __init__(self) -> None:
        self.khz = float(getattr(torch.cuda.get_device_properties(0), "clock_rate", 0) or 2_000_000)
        self.start, self.end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.host_us = 0.0  # what queueing the last batch took

    def batch(self, call: Call, calls: int, gate_us: float) -> float:
        """The span of `calls` calls in us; a gate that opened too early is tried again, longer. No gate: as it comes."""
        for _ in range(GATE_TRIES):
            torch.cuda.synchronize()
            if gate_us:
                torch.cuda._sleep(int(gate_us * self.khz / 1e3))
            self.start.record()
            began = time.perf_counter()
            for k in range(calls):
                call(k)
            self.end.record()
            self.host_us = (time.perf_counter() - began) * 1e6
            is_late = self.start.query()
            torch.cuda.synchronize()
            if not gate_us or not is_late:
                return self.start.elapsed_time(self.end) * 1e3
            gate_us = min(MAX_GATE_US, max(2 * gate_us, 2 * self.host_us))
        raise RuntimeError("%d calls could not be queued within %.0f ms" % (calls, gate_us / 1e3))

    def stretch(self, call: Call, calls: int, seconds: float) -> List[float]:
        """us per call of one batch after another, the device never idle, for so many seconds."""
        marks = [torch.cuda.Event(enable_timing=True)]
        marks[0].record()
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            for k in range(calls):
                call(k)
            marks.append(torch.cuda.Event(enable_timing=True))
            marks[-1].record()
            if len(marks) > 3:
                marks[-3].synchronize()
        torch.cuda.synchronize()
        return [a.elapsed_time(b) * 1e3 / calls for a, b in zip(marks, marks[1:])]


class HostClock:
    """The same on the CPU, where a call ends before it returns and no gate is needed."""

    host_us = 0.0

    def batch(self, call: Call, calls: int, _gate_us: float) -> float:
        """The span of `calls` calls in us."""
        began = time.perf_counter()
        for k in range(calls):
            call(k)
        return (time.perf_counter() - began) * 1e6

    def stretch(self, call: Call, calls: int, seconds: float) -> List[float]:
        """us per call of one batch after another for so many seconds."""
        until, times = time.perf_counter() + seconds, []
        while time.perf_counter() < until:
            times.append(self.batch(call, calls, 0.0) / calls)
        return times


class Meter:
    """One call under a clock: how many make a batch, how long the gate must be, then one slope after another."""

    def __init__(self, clock: Any, call: Call) -> None:
        self.clock, self.call, self.taken = clock, call, 0
        clock.batch(call, 1, 0.0)  # compiles, loads and allocates
        self.n2 = 4
        self._learn_gate()
        us = max(SMALLEST_US, min(clock.batch(call, 4, self.gate_us) for _ in range(3)) / 4)
        between = min(max(math.ceil(MIN_WORK_US / us), MIN_CALLS), MAX_CALLS)
        between = int(min(between, max(2.0, MAX_BATCH_US / us)))
        self.n1 = max(2 if between > 2 else 1, between // 5)
        self.n2 = self.n1 + between
        self._learn_gate()

    def _learn_gate(self) -> None:
        self.clock.batch(self.call, self.n2, 0.0)
        self.gate_us = GATE_MARGIN * self.clock.host_us + GATE_SPARE_US

    def value(self) -> float:
        """us per call: the slope between two batches, the shorter and the longer first in turn."""
        self.taken += 1
        order = (self.n1, self.n2) if self.taken % 2 else (self.n2, self.n1)
        spans = {n: self.clock.batch(self.call, n, self.gate_us) for n in order}
        return (spans[self.n2] - spans[self.n1]) / (self.n2 - self.n1)

    def values(self, count: int) -> List[float]:
        """So many slopes."""
        return [self.value() for _ in range(count)]

    def warm(self, seconds: float) -> None:
        """Until two slopes agree, at most so long."""
        last, until = self.value(), time.perf_counter() + seconds
        while time.perf_counter() < until:
            now = self.value()
            if abs(now - last) <= WARM_AGREE * abs(now):
                return
            last = now


def clock_for(device: str) -> Any:
    """The clock of a device."""
    return CardClock() if device == "cuda" else HostClock()
