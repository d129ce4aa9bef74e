"""The trusted process: secret inputs in exported slots, expected values, the check of every output, both stamps on CUDA.

It runs the pinned baseline file and no candidate. It answers its referee in JSON messages and knows nothing of verdicts.
"""

from __future__ import annotations

import itertools
import os
import socket
import traceback
from dataclasses import asdict
from typing import Any, Collection, Dict, List, Optional, Sequence, Tuple

import torch

from hotkernel_contract import protocol
from hotkernel_contract.card_questions import Answer, CardQuestions, places_of
from hotkernel_contract.loaded_target import LoadedTarget
from hotkernel_contract.output_check import OutputCheck
from hotkernel_contract.outputs import Observed, batch_fault
from hotkernel_contract.pool import Pool
from hotkernel_contract.slots import Field, HostArena, bits, extent_of, lay_out, read_process, views
from hotkernel_contract.target import Target, TargetError

SPOILT = 0xA5  # in every byte of an input that was used up


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


class Oracle(CardQuestions):
    """One target, its pool and slots, and the last batch on them."""

    loaded: LoadedTarget
    target: Target
    seen: Observed
    check: OutputCheck
    def __init__(self) -> None:
        self.fields: List[Field] = []
        self.out_fields: List[Field] = []
        self.changed: List[Tuple[str, torch.Tensor]] = []  # of the last batch: an input's name, and whether it changed
        self.arena: Any = None
        self.out_arena: Any = None
        self.batch: Tuple[List[int], List[int]] = ([], [])  # picks and order of the last batch

    def do_load(self, baseline: str, device: str, threads: int, case: str = "") -> Answer:
        """Load the pinned baseline and take the device; answer which, and what was loaded."""
        if threads:
            torch.set_num_threads(threads)
        self.loaded = LoadedTarget(baseline, device, case)
        self.device, self.card = self.loaded.device, self.loaded.card
        return {"device": self.device, "loaded": self.loaded.files, "cases": self.loaded.cases}, ()

    def do_describe(self) -> Answer:
        """Call the baseline; answer what it is and how long one call of it takes about."""
        self.loaded.observe()
        self.target, self.seen = self.loaded.target, self.loaded.seen
        self.pool = Pool(self.target, self.device, self.seen.dtypes)
        self.check = OutputCheck([kind.name for kind in self.seen.kinds], self.loaded.tolerances, self.device == "cuda")
        return self.loaded.describe(), ()

    def do_copy(self) -> Answer:
        """About what copying one call's outputs out costs, in us."""
        outputs = [self.seen.outputs[kind.name] for kind in self.seen.returned]
        columns = [views(self.out_arena.base, field) for field in self.out_fields]
        slots = itertools.cycle(range(len(columns[0]) if columns else 1))

        def copy() -> None:
            at = next(slots)
            for output, column in zip(outputs, columns):
                column[at].copy_(output)

        return {"copy_us": self.loaded.median_us(copy)}, ()

    def do_time(self) -> Answer:
        """How long one call of the baseline takes, in quiet."""
        return {"baseline_us": self.loaded.call_us()}, ()

    def do_prove(self) -> Answer:
        """Refuse a target that cannot judge; answer which other inputs than the timed ones it can be held to."""
        able, limited = self.loaded.prove()
        self.check.tolerances = self.loaded.tolerances
        if not self.card:
            torch.set_num_threads(1)  # a team of threads spins on after its work, on the cores that a worker is timed on
        return {"rounds": able, "limited_rounds": limited, "room": self.loaded.room}, ()

    def do_allocate(self, slots: int, copies: bool, on_host: bool = False) -> Answer:
        """Slots for inputs (and for outputs, where those are copied out); decoys lie in them until the first batch."""
        by_handle = bool(self.card) and not on_host
        for arena in (self.arena, self.out_arena):
            if arena:
                arena.close()
        counts = {name: slots if name in self.target.per_call else 1 for name in self.seen.inputs}
        self.fields, size = lay_out(self.seen.inputs, counts)
        out_size = 0
        if copies:
            returned = {kind.name: self.seen.outputs[kind.name].contiguous() for kind in self.seen.returned}
            self.out_fields, out_size = lay_out(returned, dict.fromkeys(returned, slots))
        make = self.card.arena if by_handle else HostArena
        self.arena, self.out_arena = make(size), make(out_size) if copies else None
        self.columns = {field.name: views(self.arena.base, field) for field in self.fields}
        for name, column in self.columns.items():
            for slot in column:
                slot.copy_(self.pool.static.get(name, self.seen.inputs[name]))
        self.make_snapshot(slots, is_read=not (self.card or copies))
        fields, out_fields = ([asdict(field) for field in each] for each in (self.fields, self.out_fields))
        answer = {"fields": fields, "output_fields": out_fields, "size": size, "out_size": out_size, "call": self.loaded.call}
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

    def do_draw(self, size: int = 0, kind: str = "", again: Optional[int] = None) -> Answer:
        """A new pool of secrets, or once more the drawing `again`; with a kind, of another distribution than the timed one."""
        number = self.pool.draw(size, kind, again)
        self.check.new_drawing(number, kind)
        for name in self.pool.static:  # before a side prepares anything from it
            self.columns[name][0].copy_(self.pool.static[name])
        return {"number": number}, ()

    def do_fill(self, picks: List[int], order: List[int]) -> Answer:
        """CPU: put pool entries into the slots of this order; the shared inputs too."""
        self.fill(picks, order)
        return {}, ()

    def fill(self, picks: List[int], order: List[int]) -> None:
        """Copy the picked entries to their slots (queued, on CUDA)."""
        self.batch = picks, order
        for name, column in self.columns.items():
            if name in self.target.per_call:
                for pick, slot in zip(picks, order):
                    column[slot].copy_(self.pool.rotated[pick][name])
            else:
                column[0].copy_(self.pool.shared[name])

    def do_read(self, pid: int, addresses: List[int], picks: List[int], order: List[int]) -> Answer:
        """CPU: copy the outputs out of a worker that stands still, or out of the output slots; look at its inputs too."""
        self.compare_inputs(picks, order)  # now: once it goes on it could put them back
        self.take_written(order)
        for at in range(len(order)) if self.out_arena else ():
            self.take(at, [views(self.out_arena.base, field)[at] for field in self.out_fields])
        answer = {} if self.out_arena else self._read_out(pid, addresses, order)
        self.fill(picks, order)  # on what lies there a side calls its function for nothing, ahead of a batch and as it begins
        return answer, ()

    def _read_out(self, pid: int, addresses: List[int], order: List[int]) -> Dict[str, Any]:
        """Copy what each call returned from where its worker says it lies; answer what cannot be read. What is an input's memory
        must not be right: first those are spoilt in which no output may lie, then, for the outputs that may not, the rest."""
        returned, kept = self.seen.returned, {name for kind in self.seen.kinds for name in kind.may_lie_in}
        for may_lie in (True, False):
            self.spoil_inputs(order, kept, are_kept=not may_lie)
            for at, which in itertools.product(range(len(order)), range(len(returned))):
                try:
                    if bool(returned[which].may_lie_in) is may_lie:
                        read_process(pid, addresses[at * len(returned) + which], self.raw[at][which])
                except OSError as error:
                    return {"unreadable": str(error), "errno": error.errno}
        return {}

    def spoil_inputs(self, order: List[int], kept: Collection[str], *, are_kept: bool) -> None:
        """Overwrite those inputs of a batch that are among `kept`, or those that are not."""
        for field in self.fields:
            for slot in (order if field.count > 1 else [0]) if (field.name in kept) is are_kept else ():
                start = field.offset + field.slot_bytes * slot
                self.arena.base[start:start + field.slot_bytes].fill_(SPOILT)

    def take(self, at: int, outputs: Sequence[torch.Tensor]) -> None:
        """Copy what a call returned into the snapshot."""
        for source, into in zip(outputs, self.snapshot[at]):
            into.copy_(source)

    def take_written(self, order: List[int], begin: int = 0) -> None:
        """Copy what the calls, from number `begin` on, wrote in place into the snapshot; those outputs come last."""
        first = len(self.seen.returned)
        for at, slot in enumerate(order, begin):
            for kind, into in zip(self.seen.kinds[first:], self.snapshot[at][first:]):
                into.copy_(self.columns[kind.name][slot])

    def do_judge(self, side: str, picks: List[int], outputs: List[List[Any]], are_read: bool = True) -> Answer:
        """Check every output of a batch that lies in the snapshot, if any was read, and that the inputs are what they were."""
        fault = self.kind_fault(places_of(outputs)) if outputs else None  # of a chain each call's was asked for before
        if fault is None and are_read:
            fault = self.check.fault_of(side, picks, self.snapshot, [self.pool.expected[pick] for pick in picks])
            changed = self._changed_input()
            fault = ("changed_input", "it changed its input %s" % changed) if changed else fault
        alike = self.check.is_the_targets(fault, self.loaded, self.pool)
        return {"fault": fault, "is_the_targets": alike, "tally": self.check.told(side)}, ()

    def do_count(self) -> Answer:
        """The last batch judged was timed and is not void: its precision counts; answer whose is too low."""
        return {"faults": self.check.count()}, ()

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
            pairs = [(column[s], self.pool.rotated[p][name]) for p, s in zip(picks, order)] if name in self.target.per_call else [
                (column[0], self.pool.shared[name])]
            self.changed += [(name, (bits(slot.to(private.device)) != bits(private)).any()) for slot, private in pairs]

    def _changed_input(self) -> str:
        """The name of an input whose bytes were no longer the private copy's, or nothing."""
        flags = torch.stack([flag for _, flag in self.changed]).tolist() if self.changed else []
        return next((name for (name, _), flag in zip(self.changed, flags) if flag), "")

    def do_warm(self, pick_count: int) -> Answer:
        """Run once everything that will run behind a gate or against a clock, so that nothing loads then."""
        picks = list(range(pick_count))
        self.fill(picks, picks)
        for at in range(len(self.seen.kinds)):
            self.check.statistics(at, self.snapshot, [self.pool.expected[pick] for pick in picks[:2]])
        self.compare_inputs(picks[:1], picks[:1])
        self._changed_input()
        return {}, ()
