"""What the outputs of a call are and where they may lie: kinds from the baseline's own, faults of a batch's; reads no value."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Callable, Dict, FrozenSet, List, Optional, Sequence, Tuple

import torch

from hotkernel_contract import protocol
from hotkernel_contract.call import COTANGENT
from hotkernel_contract.compare import Tolerance, shape_fault
from hotkernel_contract.inputs import like
from hotkernel_contract.pool import decoy
from hotkernel_contract.slots import extent_of, overlap
from hotkernel_contract.target import Target, TargetError

Fault = Tuple[str, str]
SlotOf = Callable[[str, int], Tuple[int, int]]  # an input's name and a call -> first byte and size of its slot


@dataclass(frozen=True)
class Kind:
    """One output: what it is called, its kind, and the inputs in whose memory it may lie, for the baseline's does."""

    name: str
    shape: Tuple[int, ...]
    dtype: str
    strides: Tuple[int, ...]
    is_written: bool  # an input that the function changes
    may_lie_in: Tuple[str, ...] = ()

    @property
    def as_wanted(self) -> Tuple[Tuple[int, ...], str, Tuple[int, ...]]:
        return self.shape, self.dtype, self.strides

    @functools.cached_property
    def itemsize(self) -> int:
        return torch.empty(0, dtype=getattr(torch, self.dtype)).element_size()

    @functools.cached_property
    def extent_bytes(self) -> int:
        """From its first byte to its last in memory."""
        return extent_of(torch.empty_strided(self.shape, self.strides, device="meta")) * self.itemsize


@dataclass
class Observed:
    """One call of the baseline: inputs, outputs, and what follows for every other call."""

    inputs: Dict[str, torch.Tensor]
    outputs: Dict[str, torch.Tensor]
    kinds: List[Kind]
    may_overlap: FrozenSet[Tuple[int, int]]  # outputs that share memory in the baseline too
    changed_bytes: int  # of what it writes in place

    @property
    def returned(self) -> List[Kind]:
        return [kind for kind in self.kinds if not kind.is_written]

    def tolerances(self, target: Target) -> List[Tolerance]:
        """Of each output; an element of one that is smaller than the inputs sums about so many of theirs."""
        read = sum(x.numel() for x in self.inputs.values() if x.dtype.is_floating_point)
        return [Tolerance.of(target, y.dtype, read // max(1, y.numel())) for y in self.outputs.values()]

    @property
    def dtypes(self) -> List[torch.dtype]:
        return [y.dtype for y in self.outputs.values()]


def observe(target: Target, device: str) -> Observed:
    """Call the baseline once and look; raises TargetError for what no verify could judge."""
    inputs = decoy(target, device)
    called = {name: like(x) for name, x in inputs.items()}
    outputs = target.run(called)
    for name, x in called.items():
        if name not in target.writes and not _same_bytes(x, inputs[name]):
            raise TargetError("the function changes its input %s in place: declare it with writes=(%r,), or wrap the function in "
                              "one that copies first" % (name, name))
    kinds = [_kind(target, name, y, called, device) for name, y in outputs.items()]
    changed = sum(int((_bytes(called[name]) != _bytes(inputs[name])).sum()) for name in target.writes)
    if target.writes and not changed:
        raise TargetError("the function does not change %s, which it is said to write" % ", ".join(target.writes))
    returned = [(at, y) for at, (kind, y) in enumerate(zip(kinds, outputs.values())) if not kind.is_written]
    pairs = [(i, j) for i, a in returned for j, b in returned if i < j and _lies_with(kinds[i], a, kinds[j], b)]
    return Observed(inputs, {name: y.clone() if name in target.writes else y for name, y in outputs.items()}, kinds,
                    frozenset(pairs), changed)


def _kind(target: Target, name: str, y: torch.Tensor, inputs: Dict[str, torch.Tensor], device: str) -> Kind:
    dtype = str(y.dtype).replace("torch.", "")
    if y.layout is not torch.strided or dtype not in protocol.DTYPES or y.dim() > protocol.MAX_DIMENSIONS:
        raise TargetError("%s is a %s tensor of %d dimensions (%s), which cannot be judged" % (name, dtype, y.dim(), y.layout))
    if y.device.type != device:
        raise TargetError("%s is on %s, the target on %s" % (name, y.device, device))
    if name in target.writes:
        return Kind(name, tuple(y.shape), dtype, tuple(y.stride()), True)
    owners = [n for n, x in inputs.items() if y.numel() and y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()]
    for owner in owners:
        if owner not in target.writes and not owner.startswith(COTANGENT):
            raise TargetError("the function returns memory of its input %s; it must return a tensor of its own, or declare the "
                              "input with writes=(%r,)" % (owner, owner))
    return Kind(name, tuple(y.shape), dtype, tuple(y.stride()), False, tuple(owners))


def batch_fault(seen: Observed, where: Sequence[protocol.OutputAt], calls: int, slot_of: SlotOf, copied: bool) -> Optional[Fault]:
    """The rule that the outputs of a batch break by their kind or place, before a byte of them is read."""
    returned = seen.returned
    wanted = [(call, which) for call in range(calls) for which in range(len(returned))]
    if [(o.call, o.which) for o in where] != wanted:
        return "out_of_protocol", "it described %d outputs of %d calls with %d each" % (len(where), calls, len(returned))
    for output in where:
        kind = returned[output.which]
        fault = shape_fault(output.shape, output.dtype, output.strides, kind.as_wanted, kind.name if len(returned) > 1 else "")
        if fault:
            return fault
        if output.segment == protocol.ARENA and not any(
                _is_inside(output.offset, kind.extent_bytes, *slot_of(name, output.call)) for name in kind.may_lie_in):
            return "output_aliases_input", "%s lies in an input's memory" % kind.name
    if copied:
        return None
    return _overlap_in_a_call(seen, where) or _overlap_of_calls(returned, where, calls)


def _is_inside(start: int, size: int, slot_start: int, slot_size: int) -> bool:
    return slot_start <= start and start + size <= slot_start + slot_size


def _overlap_in_a_call(seen: Observed, where: Sequence[protocol.OutputAt]) -> Optional[Fault]:
    kinds = seen.returned
    for at in range(0, len(where), max(1, len(kinds))):
        call = where[at:at + len(kinds)]
        for i, a in enumerate(call):
            for j in range(i + 1, len(call)):
                b = call[j]
                if a.segment == b.segment != protocol.ARENA and (i, j) not in seen.may_overlap \
                        and share_bytes(kinds[i], kinds[j], b.offset - a.offset):
                    return "outputs_overlap", "%s and %s share memory, the baseline's do not" % (kinds[i].name, kinds[j].name)
    return None


def _overlap_of_calls(kinds: List[Kind], where: Sequence[protocol.OutputAt], calls: int) -> Optional[Fault]:
    ranges: List[Tuple[int, int, int]] = []
    for call in range(calls):
        ranges += _merged(sorted((o.segment, o.offset, kinds[o.which].extent_bytes)
                                 for o in where[call * len(kinds):(call + 1) * len(kinds)] if o.segment != protocol.ARENA))
    if overlap(ranges):
        return "outputs_overlap", ("outputs of one batch share memory, and every output must stay valid to the end of its "
                                   "batch; a target whose function reuses static buffers declares reuses_output=True")
    return None


def _merged(ranges: List[Tuple[int, int, int]]) -> List[Tuple[int, int, int]]:
    """Those of one call may interleave: as one range."""
    found: List[Tuple[int, int, int]] = []
    for segment, start, size in ranges:
        if found and found[-1][0] == segment and start < found[-1][1] + found[-1][2]:
            begin = found[-1][1]
            size = max(found[-1][2], start + size - begin)
            found[-1] = (segment, begin, size)
        else:
            found.append((segment, start, size))
    return found


def share_bytes(a: Kind, b: Kind, delta: int) -> bool:
    """Whether two outputs share a byte, the second starting `delta` bytes after the first; exact where they interleave."""
    return delta < a.extent_bytes and -delta < b.extent_bytes and _marks_meet(a, b, delta)


@functools.lru_cache(maxsize=64)
def _marks_meet(a: Kind, b: Kind, delta: int) -> bool:
    start_a, start_b = max(0, -delta), max(0, delta)
    marks = torch.zeros(max(start_a + a.extent_bytes, start_b + b.extent_bytes), dtype=torch.uint8)
    _elements(marks, a, start_a).fill_(1)
    return bool(_elements(marks, b, start_b).any())


def _elements(marks: torch.Tensor, kind: Kind, start: int) -> torch.Tensor:
    strides = [stride * kind.itemsize for stride in kind.strides]
    return marks.as_strided((*kind.shape, kind.itemsize), (*strides, 1), start)


def _lies_with(a_kind: Kind, a: torch.Tensor, b_kind: Kind, b: torch.Tensor) -> bool:
    if not a.numel() or not b.numel() or a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return False
    return share_bytes(a_kind, b_kind, b.data_ptr() - a.data_ptr())


def _same_bytes(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.equal(_bytes(a), _bytes(b))


def _bytes(x: torch.Tensor) -> torch.Tensor:
    return x.reshape(-1).view(torch.uint8)
