"""The trusted process: secret inputs in exported slots, expected values, the check of every output, both stamps on CUDA.

It runs the pinned baseline file and no candidate. It answers its referee in JSON messages and knows nothing of verdicts.
"""

from __future__ import annotations

import hashlib
import os
import socket
import sys
import sysconfig
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from hotkernel_contract import protocol
from hotkernel_contract.compare import Expected, Tally, Tolerance, error_fault, shape_fault, statistics
from hotkernel_contract.paired import BASELINE, PairedErrors
from hotkernel_contract.pool import Pool, one_entry
from hotkernel_contract.selftest import refuse_weak
from hotkernel_contract.slots import Field, HostArena, extent_of, lay_out, overlap, read_process, views
from hotkernel_contract.target import Target, TargetError, find_target, load_file

Answer = Tuple[Dict[str, Any], Tuple[int, ...]]


def main(channel: socket.socket) -> None:
    """Answer requests until the channel closes; an error in one is an answer too."""
    torch.backends.cuda.matmul.allow_tf32 = False  # the reference must not be less precise than what it judges
    torch.backends.cudnn.allow_tf32 = False
    oracle = Oracle()
    while True:
        try:
            request, _ = protocol.receive_message(channel)
        except EOFError:
            os._exit(0)
        try:
            answer, fds = getattr(oracle, "do_" + request.pop("op"))(**request)
        except TargetError as error:
            answer, fds = {"refused": str(error)}, ()
        except BaseException as error:  # noqa: BLE001 - the user's reference raises anything; it becomes words
            traceback.print_exc()
            answer, fds = {"error": "%s: %s" % (type(error).__name__, str(error)[:1000])}, ()
        protocol.send_message(channel, answer, fds)


class Oracle:
    """One target, its pool and slots, and what every side's outputs looked like so far."""

    target: Target
    device: str
    wanted: Tuple[Tuple[int, ...], str, Tuple[int, ...]]
    fields: List[Field]
    card: Any = None

    def __init__(self) -> None:
        self.tallies: Dict[str, Tally] = {}
        self.paired = PairedErrors()
        self.out_fields: List[Field] = []
        self.changed: List[Tuple[str, torch.Tensor]] = []  # of the last batch: an input's name, and whether it changed
        self.arena: Any = None
        self.out_arena: Any = None

    def do_load(self, baseline: str, device: str, threads: int) -> Answer:
        """Load the pinned baseline and take the device; answer which, and what was loaded."""
        if threads:
            torch.set_num_threads(threads)
        before = set(sys.modules)
        self.target = target = find_target(load_file(Path(baseline)))
        self.device = device or target.pick_device()
        if self.device == "cuda" and not torch.cuda.is_available():
            raise TargetError("the target is for CUDA and torch sees no card here")
        if self.device == "cuda":
            from hotkernel_contract.card import Card

            torch.cuda.init()
            self.card = Card()
        return {"device": self.device, "loaded": _hashes_of(set(sys.modules) - before)}, ()

    def do_describe(self) -> Answer:
        """Call the baseline; answer what it is and how long one call of it takes about."""
        target = self.target
        self.sample, output = one_entry(target, self.device)
        if not isinstance(output, torch.Tensor):
            raise TargetError("the baseline returns %s, not a tensor" % type(output).__name__)
        dtype = str(output.dtype).replace("torch.", "")
        self.wanted = (tuple(output.shape), dtype, tuple(output.stride()))
        self.output = output
        self.tolerance = Tolerance.of(target, output.dtype)
        self.pool = Pool(target, self.device, output.dtype)
        self.check = pick_check(self.device == "cuda")
        one_us = self._time_baseline()  # roughly: contexts may be made beside it
        streamed = sum(x.numel() * x.element_size() for n, x in self.sample.items() if n in target.rotate)
        out_bytes = output.numel() * output.element_size()
        entry_bytes = 2 * streamed + out_bytes * 2 + output.numel() * (8 if output.element_size() >= 4 else 4)
        return {
            "name": target.name, "device": self.device, "baseline_us": one_us,
            "shapes": {n: list(x.shape) for n, x in self.sample.items()},
            "dtype": str(next(iter(self.sample.values())).dtype), "rotate": list(target.rotate),
            "min_bytes": target.min_bytes or streamed + out_bytes, "flops": target.flops,
            "streamed_bytes": streamed, "output_bytes": out_bytes, "entry_bytes": entry_bytes,
            "reuses_output": target.reuses_output, "rtol": self.tolerance.rtol, "atol": self.tolerance.atol,
            "free_bytes": torch.cuda.mem_get_info()[0] if self.card else _free_host_bytes(),
            "versions": _versions(),
            "gpu": torch.cuda.get_device_name() if self.card else None,
        }, ()

    def _time_baseline(self) -> float:
        """Rough time of one call, for the plan alone."""
        inputs = [x.clone() for x in self.sample.values()]
        with torch.no_grad():
            if self.card:
                return self.card.rough_us(lambda: self.target.function(*inputs))
            self.target.function(*inputs)
            times = []
            while len(times) < 3 or (sum(times) < 0.02 and len(times) < 100):
                began = time.perf_counter()
                self.target.function(*inputs)
                times.append(time.perf_counter() - began)
            return sorted(times)[len(times) // 2] * 1e6

    def do_time(self) -> Answer:
        """How long one call of the baseline takes, in quiet."""
        return {"baseline_us": self._time_baseline()}, ()

    def do_prove(self) -> Answer:
        """Refuse a target whose check would pass plain wrong answers, or not the right one."""
        refuse_weak(self.target, self.device, self.tolerance)
        if not self.card:
            torch.set_num_threads(1)  # a team of threads spins on after its work, on the cores that a worker is timed on
        return {}, ()

    def do_allocate(self, slots: int, copies: bool) -> Answer:
        """Slots for inputs (and for outputs, where those are copied out); decoys lie in them until the first batch."""
        for arena in (self.arena, self.out_arena):
            if arena:
                arena.close()
        counts = {name: slots if name in self.target.rotate else 1 for name in self.sample}
        self.fields, size = lay_out(self.sample, counts)
        out_size = 0
        if copies:
            self.out_fields, out_size = lay_out({"output": self.output}, {"output": slots})
        self.arena = self.card.arena(size) if self.card else HostArena(size)
        self.out_arena = None
        if copies:
            self.out_arena = self.card.arena(out_size) if self.card else HostArena(out_size)
        self.columns = [views(self.arena.base, f) for f in self.fields]
        for column, tensor in zip(self.columns, self.sample.values()):
            for slot in column:
                slot.copy_(tensor)
        self.make_snapshot(slots, is_read=not (self.card or copies))
        answer = {"fields": [asdict(f) for f in self.fields], "output_fields": [asdict(f) for f in self.out_fields],
                  "size": size, "out_size": out_size}
        if self.card:
            self.card.prepare(self)
            handles = self.arena.handle + (self.out_arena.handle if copies else bytes(64))
            return {**answer, "map": (handles + self.card.go.ipc_handle()).hex()}, ()
        return {**answer, "map": ""}, (self.arena.fd, *([self.out_arena.fd] if copies else []))

    def make_snapshot(self, slots: int, is_read: bool) -> None:
        """Where the outputs of a batch are kept; what is read byte by byte keeps the layout it had in the worker."""
        extent = extent_of(self.output) if is_read else self.output.numel()
        self.raw = [torch.empty(extent, dtype=self.output.dtype, device=self.device) for _ in range(slots)]
        self.snapshot = [raw.as_strided(*self.wanted[::2]) if is_read else raw.view(self.wanted[0]) for raw in self.raw]

    def do_draw(self, size: int) -> Answer:
        """A new pool of secrets."""
        self.pool.draw(size)
        self.paired.new_drawing()
        return {}, ()

    def do_fill(self, picks: List[int], order: List[int]) -> Answer:
        """CPU: put pool entries into the slots of this order; the shared inputs too."""
        self.fill(picks, order)
        return {}, ()

    def fill(self, picks: List[int], order: List[int]) -> None:
        """Copy the picked entries to their slots (queued, on CUDA)."""
        for column, name in zip(self.columns, self.sample):
            if len(column) > 1 or name in self.target.rotate:
                for pick, slot in zip(picks, order):
                    column[slot].copy_(self.pool.rotated[pick][name])
            else:
                column[0].copy_(self.pool.shared[name])

    def do_read(self, pid: int, addresses: List[int], picks: List[int], order: List[int]) -> Answer:
        """CPU: copy the outputs out of a worker that stands still, or out of the output slots; look at its inputs too."""
        self.compare_inputs(picks, order)  # now: once it goes on it could put them back
        if self.out_arena:
            for slot, into in zip(views(self.out_arena.base, self.out_fields[0]), self.snapshot[: len(addresses)]):
                into.copy_(slot)
            return {}, ()
        for address, into in zip(addresses, self.raw):
            try:
                read_process(pid, address, into)
            except OSError as error:
                return {"unreadable": str(error), "errno": error.errno}, ()
        return {}, ()

    def do_judge(self, side: str, picks: List[int], outputs: List[List[Any]]) -> Answer:
        """Check every output of a batch that lies in the snapshot, and that the inputs are what they were."""
        where = [protocol.OutputAt(*(tuple(v) if isinstance(v, list) else v for v in o)) for o in outputs]
        fault = self.kind_fault(where, len(picks))
        tally = self.tallies.setdefault(side, Tally())
        if fault is None:
            rows = self.check(self.snapshot[: len(picks)], [self.pool.expected[pick] for pick in picks], self.tolerance)
            statistics_of_each = rows.tolist()
            tally.add(statistics_of_each)
            self.paired.add(side, picks, statistics_of_each)
            fault = error_fault(tally, tally, self.tolerance)
            if fault is None and side != BASELINE:
                fault = error_fault(*self.paired.of(side), self.tolerance)
            changed = self._changed_input()
            if changed:
                fault = "changed_input", "it changed its input %s" % changed
        return {"fault": fault, "tally": {**asdict(tally), "rms_ulps": tally.rms_ulps}}, ()

    def kind_fault(self, where: List[protocol.OutputAt], calls: int) -> Optional[Tuple[str, str]]:
        """The rule that the outputs of a batch break by their kind or place, before a byte of them is read."""
        if len(where) != calls or [o.call for o in where] != list(range(calls)):
            return "out_of_protocol", "it described %d outputs of %d calls" % (len(where), calls)
        for output in where:
            fault = shape_fault(output.shape, output.dtype, output.strides, self.wanted)
            if fault:
                return fault
        size = self.output.numel() * self.output.element_size()
        if not self.out_arena and overlap([(o.segment, o.offset, size) for o in where]):
            return "outputs_overlap", ("outputs of one batch share memory, and every output must stay valid to the end of its "
                                       "batch; a target whose function reuses static buffers declares reuses_output=True")
        return None

    def compare_inputs(self, picks: List[int], order: List[int]) -> None:
        """Hold every input against its private copy; queued, on CUDA, and read by _changed_input."""
        self.changed = []
        for column, name in zip(self.columns, self.sample):
            streams = name in self.target.rotate
            pairs = [(column[s], self.pool.rotated[p][name]) for p, s in zip(picks, order)] if streams else [
                (column[0], self.pool.shared[name])]
            self.changed += [(name, (_bits(slot) != _bits(private)).any()) for slot, private in pairs]

    def _changed_input(self) -> str:
        """The name of an input whose bytes were no longer the private copy's, or nothing."""
        flags = torch.stack([flag for _, flag in self.changed]).tolist()
        return next((name for (name, _), flag in zip(self.changed, flags) if flag), "")

    def do_warm(self, pick_count: int) -> Answer:
        """Run once everything that will run behind a gate or against a clock, so that nothing loads then."""
        picks = list(range(pick_count))
        self.fill(picks, picks)
        self.check(self.snapshot[:2], self.pool.expected[:2], self.tolerance).tolist()
        self.compare_inputs(picks[:1], picks[:1])
        self._changed_input()
        return {}, ()

    # CUDA alone: stamps, segments, events
    def do_worker(self, name: str, done: str) -> Answer:
        """A worker is ready: its DONE event."""
        return self._opened("event", lambda: self.card.add_worker(name, bytes.fromhex(done)))

    def do_segment(self, name: str, number: int, size: int, handle: str) -> Answer:
        """A worker's allocation that outputs will lie in; opened once and kept."""
        return self._opened("memory", lambda: self.card.open_segment(name, number, size, bytes.fromhex(handle)))

    def _opened(self, what: str, open_it: Callable[[], None]) -> Answer:
        """What a worker named by a handle of its own making may be nothing: that is the worker's fault, not the target's."""
        try:
            open_it()
        except RuntimeError as error:
            return {"fault": ["out_of_protocol", "its process named %s that cannot be opened: %s" % (what, str(error)[:200])]}, ()
        return {}, ()

    def do_forget(self, name: str) -> Answer:
        """A worker is gone: close what was opened for it."""
        self.card.forget(name)
        return {}, ()

    def do_arm(self, picks: List[int], order: List[int], gate_us: float) -> Answer:
        """Queue gate, stamp0, fill, flush and GO; with no gate, the batch runs open."""
        self.card.arm(self, picks, order, gate_us)
        return {}, ()

    def do_collect(self, name: str, outputs: List[List[Any]]) -> Answer:
        """The worker is armed: wait for DONE, stamp1, snapshot, stamp2; answer both spans and whether the gate held."""
        where = [protocol.OutputAt(*(tuple(v) if isinstance(v, list) else v for v in o)) for o in outputs]
        return self.card.collect(self, name, where), ()

    def do_fill_alone(self, picks: List[int], order: List[int], gate_us: float) -> Answer:
        """F: what the fill costs by itself, by the same stamps."""
        return self.card.fill_alone(self, picks, order, gate_us), ()


def check_all(outputs: List[torch.Tensor], expected: List[Expected], tolerance: Tolerance) -> torch.Tensor:
    """compare.STATISTICS of several outputs, a row each."""
    return torch.stack([statistics(output, right, tolerance) for output, right in zip(outputs, expected)])


def pick_check(on_card: bool) -> Callable[..., torch.Tensor]:
    """`check_all`, in one pass over each output where there is a card and Triton; the two agree (tests/gpu)."""
    if not on_card:
        return check_all
    try:
        from hotkernel_contract.check_kernel import fits, fused_statistics
    except ImportError:
        return check_all

    def check(outputs: List[torch.Tensor], expected: List[Expected], tolerance: Tolerance) -> torch.Tensor:
        fused = all(fits(output, right) for output, right in zip(outputs, expected))
        return (fused_statistics if fused else check_all)(outputs, expected, tolerance)

    return check


def _bits(x: torch.Tensor) -> torch.Tensor:
    flat = x.reshape(-1).view(torch.uint8)
    return flat.view(torch.int64) if flat.numel() % 8 == 0 and flat.data_ptr() % 8 == 0 else flat


def _free_host_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") if hasattr(os, "sysconf") else 1 << 30


def _hashes_of(names: set) -> Dict[str, str]:
    """SHA-256 of every file of the user's own that loading the baseline brought in."""
    ours = str(Path(__file__).resolve().parent)
    libraries = [str(Path(sysconfig.get_paths()[k]).resolve()) for k in ("stdlib", "purelib", "platlib")]
    found = {}
    for name in names:
        path = getattr(sys.modules.get(name), "__file__", None)
        if path and path.endswith(".py"):
            resolved = str(Path(path).resolve())
            if not resolved.startswith((ours, *libraries)) and "site-packages" not in resolved:
                found[resolved] = hashlib.sha256(Path(resolved).read_bytes()).hexdigest()
    return found


def _versions() -> Dict[str, Optional[str]]:
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = None
    return {"python": "%d.%d.%d" % sys.version_info[:3], "torch": torch.__version__, "triton": triton_version,
            "cuda": torch.version.cuda}


