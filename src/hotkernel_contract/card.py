"""The oracle's side of a CUDA batch: gate, stamps, flush, events and the snapshot of outputs; judges nothing."""

from __future__ import annotations

import math
import time
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from hotkernel_contract.protocol import ARENA, OutputAt
from hotkernel_contract.slots import DeviceArena, Driver, device_bytes, views

FLUSH_FACTOR = 2.0  # the flush writes so many times the L2, or what the last batch left there would be read from it
MAX_GATE_US = 2_000_000.0


class Card:
    """The context that holds the clock; no worker can reach it."""

    def __init__(self) -> None:
        self.driver = Driver()
        properties = torch.cuda.get_device_properties(0)
        self.clock_khz = float(getattr(properties, "clock_rate", 0) or 2_000_000)
        self.flush_bytes = max(32 << 20, int(FLUSH_FACTOR * properties.L2_cache_size))
        self.flush = torch.empty(self.flush_bytes, dtype=torch.uint8, device="cuda")
        self.stamps = [torch.cuda.Event(enable_timing=True) for _ in range(4)]  # start, end, checked, filled
        self.go: Any = None
        self.workers: Dict[str, torch.cuda.Event] = {}
        self.segments: Dict[Tuple[str, int], Tuple[int, torch.Tensor]] = {}  # address here, and all of it as bytes
        self.flushed = 0
        self.batch: Tuple[List[int], List[int]] = ([], [])  # picks and order of the armed batch

    def why_not_shared(self) -> str:
        """Why another process cannot open memory and events of this one; empty where it can. WSL2 cannot, nor can Jetsons."""
        try:
            self.go = torch.cuda.Event(interprocess=True, enable_timing=False)
            self.go.record()  # an inter-process event must be recorded before anyone waits for it
            self.go.ipc_handle()
            self.arena(1).close()
        except RuntimeError as error:
            return str(error).splitlines()[0][:200]
        return ""

    def arena(self, size: int) -> DeviceArena:
        return DeviceArena(size, self.driver)

    def rough_us(self, call: Callable[[], Any]) -> float:
        """About what one call takes on the device, launches hidden where it lets them be."""
        call()
        torch.cuda.synchronize()
        best = math.inf
        for _ in range(3):
            torch.cuda._sleep(int(self.clock_khz * 2))
            self.stamps[0].record()
            for _ in range(4):
                call()
            self.stamps[1].record()
            torch.cuda.synchronize()
            best = min(best, self.stamps[0].elapsed_time(self.stamps[1]) * 250)
        return best

    def prepare(self, oracle: Any) -> None:
        """Run once what will run behind a gate, so that no module loads there."""
        self._gate(10.0)
        self._flush()
        for stamp in self.stamps:
            stamp.record()
        self.go.record()
        oracle.take(0, [oracle.seen.outputs[kind.name] for kind in oracle.seen.returned])
        oracle.take_written([0])
        torch.cuda.synchronize()

    def add_worker(self, name: str, handle: bytes) -> None:
        self.workers[name] = torch.cuda.Event.from_ipc_handle(torch.device("cuda", 0), handle)
        torch.cuda.current_stream().wait_event(self.workers[name])
        torch.cuda.synchronize()

    def open_segment(self, name: str, number: int, size: int, handle: bytes) -> None:
        pointer = self.driver.open(handle)
        try:
            start, there = self.driver.range_of(pointer)
        except RuntimeError:  # a driver need not say it of another process's memory
            start, there = pointer, size
        if pointer + size > start + there:  # reading beyond it would end this context
            self.driver.close(pointer)
            raise RuntimeError("%d bytes where %d are" % (size, there))
        self.segments[name, number] = (pointer, device_bytes(pointer, size))

    def forget(self, name: str) -> None:
        torch.cuda.synchronize()
        for key in [key for key in self.segments if key[0] == name]:
            self.driver.close(self.segments.pop(key)[0])
        self.workers.pop(name, None)

    def arm(self, oracle: Any, picks: List[int], order: List[int], gate_us: float) -> None:
        """Queue the head of a batch: gate, stamp0, fill, flush, GO."""
        torch.cuda.synchronize()
        self.batch = picks, order
        self.armed_at = time.perf_counter()
        if gate_us:
            self._gate(gate_us)
        self.stamps[0].record()
        oracle.fill(picks, order)
        self._flush()
        self.stamps[3].record()
        self.go.record()

    def arm_chain(self, oracle: Any, pick: int, slot: int, gate_us: float) -> None:
        """Queue the head of a chain: gate, stamp0, and what its first call needs."""
        torch.cuda.synchronize()
        self.linked: List[Tuple[int, int]] = []
        self.armed_at = time.perf_counter()
        self._gate(gate_us)
        self.stamps[0].record()
        self._feed(oracle, pick, slot)

    def link(self, oracle: Any, name: str, outputs: List[OutputAt], following: Optional[Tuple[int, int]]) -> Dict[str, Any]:
        """Behind a chain's call: DONE, what it returned, and only then the input of the following one, on the card as in the
        queue; behind the last, stamp1: wait, and answer in us."""
        fault, sources = self._named_outputs(oracle, name, outputs)
        if fault:
            torch.cuda.synchronize()
            return {"fault": fault}
        torch.cuda.current_stream().wait_event(self.workers[name])
        if following is None:
            self.stamps[1].record()
        at = len(self.linked)
        oracle.take(at, sources)
        oracle.take_written(self.batch[1], at)
        self.linked.append((self.batch[0][0], self.batch[1][0]))
        if following is not None:
            self._feed(oracle, *following)
            return {}
        late = self.stamps[0].query()
        queued_s = time.perf_counter() - self.armed_at
        oracle.compare_inputs([pick for pick, _ in self.linked], [slot for _, slot in self.linked])
        torch.cuda.synchronize()
        return {"queued_s": queued_s, "span_us": self.stamps[0].elapsed_time(self.stamps[1]) * 1e3, "late": late}

    def _feed(self, oracle: Any, pick: int, slot: int) -> None:
        """Queue one call's input, the flush and GO."""
        self.batch = [pick], [slot]
        oracle.fill(*self.batch)
        self._flush()
        self.go.record()

    def _named_outputs(self, oracle: Any, name: str, outputs: List[OutputAt]) -> Tuple[Any, List[torch.Tensor]]:
        """The fault of what a worker says of its outputs, or these as tensors here."""
        fault = oracle.kind_fault(outputs)
        sources = [] if fault else self._sources(oracle, name, outputs)
        if not fault and len(sources) != len(oracle.seen.returned) * len(self.batch[1]):
            fault = ["out_of_protocol", "an output lies outside every allocation that was named"]
        return fault, sources

    def collect(self, oracle: Any, name: str, outputs: List[OutputAt]) -> Dict[str, Any]:
        """Queue the tail of a batch: DONE, stamp1, snapshot, stamp2; wait, and answer in us."""
        fault, sources = self._named_outputs(oracle, name, outputs)
        if fault:
            torch.cuda.synchronize()
            return {"fault": fault}
        returned, calls = len(oracle.seen.returned), len(self.batch[1])
        torch.cuda.current_stream().wait_event(self.workers[name])
        self.stamps[1].record()
        for at in range(calls):
            oracle.take(at, sources[at * returned:(at + 1) * returned])
        oracle.take_written(self.batch[1])
        self.stamps[2].record()
        late = self.stamps[0].query()
        queued_s = time.perf_counter() - self.armed_at
        oracle.compare_inputs(*self.batch)  # at once: a side that puts them back before then shows in the check's time
        torch.cuda.synchronize()
        return {"queued_s": queued_s, "fill_us": self.stamps[0].elapsed_time(self.stamps[3]) * 1e3,
                "span_us": self.stamps[0].elapsed_time(self.stamps[1]) * 1e3,
                "check_us": self.stamps[1].elapsed_time(self.stamps[2]) * 1e3, "late": late}

    def fill_alone(self, oracle: Any, picks: List[int], order: List[int], gate_us: float) -> Dict[str, float]:
        """The same head with no call behind it; GO is recorded too, since it is part of every batch."""
        self.arm(oracle, picks, order, gate_us)
        self.stamps[1].record()
        torch.cuda.synchronize()
        return {"span_us": self.stamps[0].elapsed_time(self.stamps[1]) * 1e3,
                "fill_us": self.stamps[0].elapsed_time(self.stamps[3]) * 1e3}

    def _sources(self, oracle: Any, name: str, outputs: List[OutputAt]) -> List[torch.Tensor]:
        """The outputs as tensors here, in the baseline's kinds; those that lie nowhere we know are left out."""
        kinds = oracle.seen.returned
        if oracle.out_arena:
            columns = [views(oracle.out_arena.base, field) for field in oracle.out_fields]
            return [column[at] for at in range(len(self.batch[1])) for column in columns]
        sources = []
        for output in outputs:
            kind = kinds[output.which]
            if not kind.extent_bytes:
                sources.append(oracle.seen.outputs[kind.name])
                continue
            if output.segment == ARENA:  # inside a slot that it may lie in: kind_fault has looked
                raw: Any = oracle.arena.base
            else:
                _, raw = self.segments.get((name, output.segment), (0, None))
            if raw is not None and output.offset + kind.extent_bytes <= raw.numel():
                part = raw[output.offset:output.offset + kind.extent_bytes].view(getattr(torch, kind.dtype))
                sources.append(part.as_strided(kind.shape, kind.strides, part.storage_offset()))
        return sources

    def _gate(self, gate_us: float) -> None:
        """A bounded spin. A stream that waits for a host flag deadlocked: module loads and IPC opens wait for it."""
        torch.cuda._sleep(int(min(gate_us, MAX_GATE_US) * self.clock_khz / 1e3))

    def _flush(self) -> None:
        self.flushed = (self.flushed + 1) % 251
        self.flush.fill_(self.flushed)
