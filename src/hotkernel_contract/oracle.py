"""The trusted process: secret inputs in exported slots, expected values, the check of every output, both stamps on CUDA.

It runs the pinned baseline file and no candidate. It answers its referee in JSON messages and knows nothing of verdicts.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import socket
import sys
import sysconfig
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from hotkernel_contract import protocol
from hotkernel_contract.compare import Expected, Tally, Tolerance, error_fault, statistics
from hotkernel_contract.inputs import is_kept, like
from hotkernel_contract.loading import load_file
from hotkernel_contract.outputs import Observed, batch_fault, observe
from hotkernel_contract.paired import BASELINE, PairedErrors
from hotkernel_contract.pool import Pool, decoy
from hotkernel_contract.selftest import refuse_weak, rounds_for
from hotkernel_contract.slots import Field, HostArena, extent_of, lay_out, read_process, views
from hotkernel_contract.target import Target, TargetError, find_target

SPOILT = 0xA5  # in every byte of an input that was used up
SHARED_LEAST = 256  # shared inputs are looked at when they are more than one part in so many of those that stream
ROUGH_ROUNDS = 3  # of every baseline in turn, where there are several to choose from
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
    seen: Observed
    fields: List[Field]
    card: Any = None

    def __init__(self) -> None:
        self.tallies: Dict[str, List[Tally]] = {}  # of each side, one an output
        self.paired: List[PairedErrors] = []
        self.rounds: Dict[str, Dict[str, int]] = {}  # outputs checked of each side, by the kind of round
        self.kind = ""  # of the last drawing: empty for what is timed
        self.out_fields: List[Field] = []
        self.changed: List[Tuple[str, torch.Tensor]] = []  # of the last batch: an input's name, and whether it changed
        self.arena: Any = None
        self.out_arena: Any = None
        self.batch: Tuple[List[int], List[int]] = ([], [])  # picks and order of the last batch

    def do_load(self, baseline: str, device: str, threads: int, case: str = "") -> Answer:
        """Load the pinned baseline and take the device; answer which, and what was loaded."""
        if threads:
            torch.set_num_threads(threads)
        before = set(sys.modules)
        whole = target = find_target(load_file(Path(baseline)))
        if whole.cases:
            target = whole.of_case(case or next(iter(whole.cases)))
        self.device = device or target.pick_device()
        if self.device == "cuda" and not torch.cuda.is_available():
            raise TargetError("the target is for CUDA and torch sees no card here")
        if self.device == "cuda":
            from hotkernel_contract.card import Card

            torch.cuda.init()
            self.card = Card()
        self.target = target
        return {"device": self.device, "loaded": {**_hashes_of(set(sys.modules) - before), **_hashes_of_files(whole)},
                "cases": list(whole.cases)}, ()

    def do_describe(self) -> Answer:
        """Call the baseline; answer what it is and how long one call of it takes about."""
        self.target, times_us, baseline_name = self._fastest(self.target.settle(self.device))
        target, self.seen = self.target, observe(self.target, self.device)
        self.tolerances = self.seen.tolerances(target)
        self.pool = Pool(target, self.device, self.seen.dtypes)
        self.paired = [PairedErrors() for _ in self.seen.kinds]
        self.check = pick_check(self.device == "cuda")
        self.call = {**target.call.to_plain(), "names": [kind.name for kind in self.seen.returned],
                     "case": target.case, "baseline": baseline_name}
        sizes = self._sizes()
        return {
            "name": target.name, "device": self.device, "baseline_us": times_us[baseline_name or BASELINE],
            "baselines_us": times_us, "baseline_name": baseline_name or BASELINE, "case": target.case,
            "shapes": {n: list(x.shape) for n, x in self.seen.inputs.items()},
            "dtype": str(next(iter(self.seen.inputs.values())).dtype), "rotate": list(target.rotate), **sizes,
            "is_shared": self._shares_inputs(),
            "outputs": [kind.name for kind in self.seen.kinds], "returned": len(self.seen.returned),
            "min_bytes": target.min_bytes or sizes["streamed_bytes"] + sizes["output_bytes"], "flops": target.flops,
            "reuses_output": target.reuses_output, "cannot_share": self.card.why_not_shared() if self.card else "",
            "rtol": self.tolerances[0].rtol, "atol": self.tolerances[0].atol,
            "free_bytes": torch.cuda.mem_get_info()[0] if self.card else _free_host_bytes(),
            "versions": _versions(),
            "gpu": torch.cuda.get_device_name() if self.card else None,
        }, ()

    def _shares_inputs(self) -> bool:
        """Whether the calls of a batch share inputs large enough that what is worked out of them counts."""
        target, seen = self.target, self.seen
        sizes = {name: x.numel() * x.element_size() for name, x in seen.inputs.items()}
        shared = [size for name, size in sizes.items()
                  if name not in target.rotate and name not in target.static_tensors and not is_kept(target, name)]
        return sum(shared) * SHARED_LEAST > sum(sizes[name] for name in target.rotate)

    def do_copy(self) -> Answer:
        """About what copying one call's outputs out costs, in us."""
        outputs = [self.seen.outputs[kind.name] for kind in self.seen.returned]
        columns = [views(self.out_arena.base, field) for field in self.out_fields]
        slots = itertools.cycle(range(len(columns[0]) if columns else 1))

        def copy() -> None:
            at = next(slots)
            for output, column in zip(outputs, columns):
                column[at].copy_(output)

        return {"copy_us": self._median_us(copy)}, ()

    def _sizes(self) -> Dict[str, int]:
        """Bytes that stream in, that come out, and that one slot costs with all its copies. Of what a call writes in place,
        only what it changed is known to move."""
        target, seen = self.target, self.seen
        streamed = {n: x.numel() * x.element_size() for n, x in seen.inputs.items() if n in target.rotate}
        returned = sum(y.numel() * y.element_size() for kind, y in zip(seen.kinds, seen.outputs.values()) if not kind.is_written)
        copies = sum(y.numel() * (2 * y.element_size() + (8 if y.element_size() >= 4 else 4)) for y in seen.outputs.values())
        return {"streamed_bytes": sum(size for name, size in streamed.items() if name not in target.writes),
                "output_bytes": returned + seen.changed_bytes, "entry_bytes": 2 * sum(streamed.values()) + copies}

    def _fastest(self, target: Target) -> Tuple[Target, Dict[str, float], str]:
        """The target with the fastest of its baselines as the function, and about what a call of each takes, in us."""
        names = ["", *target.baselines]
        inputs = decoy(target, self.device)
        with torch.no_grad():
            times = dict.fromkeys(names, math.inf)
            for _ in range(ROUGH_ROUNDS if len(names) > 1 else 1):
                for name in names:
                    times[name] = min(times[name], self._rough_us(target.with_function(name), inputs))
        fastest = min(names, key=lambda name: times[name])
        return target.with_function(fastest), {name or BASELINE: us for name, us in times.items()}, fastest

    def _rough_us(self, target: Target, inputs: Dict[str, torch.Tensor]) -> float:
        """Rough time of one call, for the plan and for the choice of a baseline."""
        arguments = target.call.arguments(target.call.values({name: like(x) for name, x in inputs.items()}))
        run = target.call.runner(target.function)
        return self._median_us(lambda: run(arguments))

    def _median_us(self, call: Callable[[], Any]) -> float:
        if self.card:
            return self.card.rough_us(call)
        call()
        times: List[float] = []
        while len(times) < 3 or (sum(times) < 0.02 and len(times) < 100):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return sorted(times)[len(times) // 2] * 1e6

    def do_time(self) -> Answer:
        """How long one call of the baseline takes, in quiet."""
        return {"baseline_us": self._rough_us(self.target, self.seen.inputs)}, ()

    def do_prove(self) -> Answer:
        """Refuse a target whose check would pass plain wrong answers, or not the right one; answer which other inputs than
        the timed ones it can be held to, and why not the rest."""
        refuse_weak(self.target, self.device, self.seen)
        able, limited = rounds_for(self.target, self.device, self.seen)
        if not self.card:
            torch.set_num_threads(1)  # a team of threads spins on after its work, on the cores that a worker is timed on
        return {"rounds": able, "limited_rounds": limited}, ()

    def do_allocate(self, slots: int, copies: bool, on_host: bool = False) -> Answer:
        """Slots for inputs (and for outputs, where those are copied out); decoys lie in them until the first batch."""
        by_handle = bool(self.card) and not on_host
        for arena in (self.arena, self.out_arena):
            if arena:
                arena.close()
        counts = {name: slots if name in self.target.rotate else 1 for name in self.seen.inputs}
        self.fields, size = lay_out(self.seen.inputs, counts)
        out_size = 0
        if copies:
            returned = {kind.name: self.seen.outputs[kind.name].contiguous() for kind in self.seen.returned}
            self.out_fields, out_size = lay_out(returned, dict.fromkeys(returned, slots))
        self.arena = self.card.arena(size) if by_handle else HostArena(size)
        self.out_arena = None
        if copies:
            self.out_arena = self.card.arena(out_size) if by_handle else HostArena(out_size)
        self.columns = {field.name: views(self.arena.base, field) for field in self.fields}
        for name, column in self.columns.items():
            for slot in column:
                slot.copy_(self.pool.static.get(name, self.seen.inputs[name]))
        self.make_snapshot(slots, is_read=not (self.card or copies))
        answer = {"fields": [asdict(f) for f in self.fields], "output_fields": [asdict(f) for f in self.out_fields],
                  "size": size, "out_size": out_size, "call": self.call}
        if by_handle:
            self.card.prepare(self)
            handles = self.arena.handle + (self.out_arena.handle if copies else bytes(64))
            return {**answer, "map": (handles + self.card.go.ipc_handle()).hex()}, ()
        return {**answer, "map": ""}, (self.arena.fd, *([self.out_arena.fd] if copies else []))

    def make_snapshot(self, slots: int, is_read: bool) -> None:
        """Where the outputs of a batch are kept; what is read byte by byte keeps the layout it had in the worker."""
        self.raw: List[List[torch.Tensor]] = []
        self.snapshot: List[List[torch.Tensor]] = []
        for _ in range(slots):
            raws = [torch.empty(extent_of(y) if is_read and not kind.is_written else y.numel(), dtype=y.dtype, device=self.device)
                    for kind, y in zip(self.seen.kinds, self.seen.outputs.values())]
            self.raw.append(raws)
            self.snapshot.append([raw.as_strided(kind.shape, kind.strides) if is_read and not kind.is_written
                                  else raw.view(kind.shape) for kind, raw in zip(self.seen.kinds, raws)])

    def do_draw(self, size: int, kind: str = "") -> Answer:
        """A new pool of secrets; with a kind, of another distribution than the timed one."""
        self.kind = kind
        self.pool.draw(size, kind)
        for paired in self.paired:
            paired.new_drawing()
        for name in self.pool.static:  # before a side prepares anything from it
            self.columns[name][0].copy_(self.pool.static[name])
        return {}, ()

    def do_fill(self, picks: List[int], order: List[int]) -> Answer:
        """CPU: put pool entries into the slots of this order; the shared inputs too."""
        self.fill(picks, order)
        return {}, ()

    def fill(self, picks: List[int], order: List[int]) -> None:
        """Copy the picked entries to their slots (queued, on CUDA)."""
        self.batch = picks, order
        for name, column in self.columns.items():
            if name in self.target.rotate:
                for pick, slot in zip(picks, order):
                    column[slot].copy_(self.pool.rotated[pick][name])
            else:
                column[0].copy_(self.pool.shared[name])

    def do_read(self, pid: int, addresses: List[int], picks: List[int], order: List[int]) -> Answer:
        """CPU: copy the outputs out of a worker that stands still, or out of the output slots; look at its inputs too."""
        self.compare_inputs(picks, order)  # now: once it goes on it could put them back
        self.take_written(order)
        if self.out_arena:
            for at in range(len(order)):
                self.take(at, [views(self.out_arena.base, field)[at] for field in self.out_fields])
            return {}, ()
        self.spoil_inputs(order)
        answer = self._read_out(pid, addresses, len(order))
        self.fill(picks, order)  # a side that begins later calls its function on what lies there, before its first batch
        return answer, ()

    def _read_out(self, pid: int, addresses: List[int], calls: int) -> Dict[str, Any]:
        """Copy what each call returned from where its worker says it lies; answer what cannot be read."""
        returned = len(self.seen.returned)
        for at in range(calls):
            for address, into in zip(addresses[at * returned:(at + 1) * returned], self.raw[at]):
                try:
                    read_process(pid, address, into)
                except OSError as error:
                    return {"unreadable": str(error), "errno": error.errno}
        return {}

    def spoil_inputs(self, order: List[int]) -> None:
        """Overwrite the inputs of a batch, but for what an output may lie in: where an output lies is its worker's word, and
        one that is an input's memory must not be right."""
        kept = {*self.target.writes, *(name for kind in self.seen.kinds for name in kind.may_lie_in)}
        for field in self.fields:
            for slot in (order if field.count > 1 else [0]) if field.name not in kept else ():
                start = field.offset + field.slot_bytes * slot
                self.arena.base[start:start + field.slot_bytes].fill_(SPOILT)

    def take(self, at: int, outputs: Sequence[torch.Tensor]) -> None:
        """Copy what a call returned into the snapshot."""
        for source, into in zip(outputs, self.snapshot[at]):
            into.copy_(source)

    def take_written(self, order: List[int]) -> None:
        """Copy what the calls wrote in place into the snapshot; those outputs come last."""
        first = len(self.seen.returned)
        for at, slot in enumerate(order):
            for kind, into in zip(self.seen.kinds[first:], self.snapshot[at][first:]):
                into.copy_(self.columns[kind.name][slot])

    def do_judge(self, side: str, picks: List[int], outputs: List[List[Any]]) -> Answer:
        """Check every output of a batch that lies in the snapshot, and that the inputs are what they were."""
        fault = self.kind_fault(places_of(outputs))
        tallies = self.tallies.setdefault(side, [Tally() for _ in self.seen.kinds])
        if fault is None:
            fault = self._check_round(side, picks) if self.kind else self._check_timed(side, picks, tallies)
            changed = self._changed_input()
            if changed:
                fault = "changed_input", "it changed its input %s" % changed
        tally = Tally.joined(tallies)
        return {"fault": fault, "tally": {**asdict(tally), "rms_ulps": tally.rms_ulps, "rounds": self.rounds.get(side, {})}}, ()

    def _check_timed(self, side: str, picks: List[int], tallies: List[Tally]) -> Optional[Tuple[str, str]]:
        """The first fault of a batch's values."""
        first = None
        for at, (tally, paired, tolerance) in enumerate(zip(tallies, self.paired, self.tolerances)):
            rows = self._statistics(at, picks)
            tally.add(rows)
            paired.add(side, picks, rows)
            fault = error_fault(tally, tally, tolerance)
            if fault is None and side != BASELINE:
                fault = error_fault(*paired.of(side), tolerance)
            first = first or self._of_output(at, fault)
        return first

    def _check_round(self, side: str, picks: List[int]) -> Optional[Tuple[str, str]]:
        """A round of correctness on another distribution: by element alone, for precision is measured on the timed one."""
        counts = self.rounds.setdefault(side, {})
        counts[self.kind] = counts.get(self.kind, 0) + len(picks) * len(self.seen.kinds)
        for at, tolerance in enumerate(self.tolerances):
            tally = Tally()
            tally.add(self._statistics(at, picks))
            fault = self._of_output(at, error_fault(tally, tally, tolerance))
            if fault:
                return fault[0], "on inputs of the kind %r: %s" % (self.kind, fault[1])
        return None

    def _statistics(self, at: int, picks: List[int]) -> List[List[float]]:
        """compare.STATISTICS of one output of each call of a batch."""
        return self.check([self.snapshot[call][at] for call in range(len(picks))],
                          [self.pool.expected[pick][at] for pick in picks], self.tolerances[at]).tolist()

    def _of_output(self, at: int, fault: Optional[Tuple[str, str]]) -> Optional[Tuple[str, str]]:
        """A fault that says which of several outputs has it."""
        if fault is None or len(self.seen.kinds) == 1:
            return fault
        return fault[0], "%s: %s" % (self.seen.kinds[at].name, fault[1])

    def kind_fault(self, where: List[protocol.OutputAt]) -> Optional[Tuple[str, str]]:
        """The rule that the outputs of a batch break by their kind or place."""
        fields = {field.name: field for field in self.fields}

        def slot_of(name: str, call: int) -> Tuple[int, int]:
            field, slot = fields[name], self.batch[1][call]
            return field.offset + field.slot_bytes * (slot if field.count > 1 else 0), field.slot_bytes

        return batch_fault(self.seen, where, len(self.batch[1]), slot_of, bool(self.out_arena))

    def compare_inputs(self, picks: List[int], order: List[int]) -> None:
        """Hold every input that may not change against its private copy; queued, on CUDA, and read by _changed_input."""
        self.changed = []
        for name, column in self.columns.items():
            if name in self.target.writes:
                continue
            pairs = [(column[s], self.pool.rotated[p][name]) for p, s in zip(picks, order)] if name in self.target.rotate else [
                (column[0], self.pool.shared[name])]
            self.changed += [(name, (_bits(slot.to(private.device)) != _bits(private)).any()) for slot, private in pairs]

    def _changed_input(self) -> str:
        """The name of an input whose bytes were no longer the private copy's, or nothing."""
        flags = torch.stack([flag for _, flag in self.changed]).tolist() if self.changed else []
        return next((name for (name, _), flag in zip(self.changed, flags) if flag), "")

    def do_warm(self, pick_count: int) -> Answer:
        """Run once everything that will run behind a gate or against a clock, so that nothing loads then."""
        picks = list(range(pick_count))
        self.fill(picks, picks)
        for at in range(len(self.seen.kinds)):
            self._statistics(at, picks[:2])
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
        return self.card.collect(self, name, places_of(outputs)), ()

    def do_fill_alone(self, picks: List[int], order: List[int], gate_us: float) -> Answer:
        """F: what the fill costs by itself, by the same stamps."""
        return self.card.fill_alone(self, picks, order, gate_us), ()


def places_of(outputs: List[List[Any]]) -> List[protocol.OutputAt]:
    """As JSON said them."""
    return [protocol.OutputAt(*(tuple(v) if isinstance(v, list) else v for v in o)) for o in outputs]


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


def _hashes_of_files(target: Target) -> Dict[str, str]:
    """SHA-256 of the files that inputs come from."""
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in target.files}


def _versions() -> Dict[str, Optional[str]]:
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = None
    return {"python": "%d.%d.%d" % sys.version_info[:3], "torch": torch.__version__, "triton": triton_version,
            "cuda": torch.version.cuda}


