"""Adds up a torch.profiler trace, event by event: kernels, copies, operators; opens no file."""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hotkernel.profilers import kernel_names
from hotkernel.profilers.report import Findings, Tally, busy_length, exact, idle_pct
from hotkernel.schema.profile import OpRow

TARGET_RANGE = "hotkernel_target"  # the contract puts it around the target's own calls
TARGET_SCOPE = "the target's own calls"
WHOLE_SCOPE = "the whole script"
SHAPES_LIMIT = 8  # inputs of an operator that are shown
NO_KERNEL = (
    "no kernel in this trace: the work ran on the CPU, or the profiler recorded no GPU activity "
    "(another CUPTI user such as nsys or DCGM holds it, or the driver denies it)"
)

_KERNEL = frozenset({"kernel"})
_COPY = frozenset({"gpu_memcpy", "gpu_memset", "memcpy", "memset"})
_CPU_OP = frozenset({"cpu_op", "operator"})
_LAUNCH = frozenset({"cuda_runtime", "cuda_driver", "runtime", "driver", "hip_runtime"})


@dataclass(frozen=True)
class Gpu:
    """A kernel, copy or fill on the card."""

    name: str
    start: float
    length: float
    device: int | None
    correlation: int | None
    facts: Mapping[str, object]
    moved_bytes: int | None


@dataclass
class Sums:
    """One row's sums."""

    calls: int = 0
    cpu_us: float = 0.0
    device_us: float = 0.0


@dataclass
class Collected:
    """What one pass over the events keeps; what is alike is kept once, as a trace holds millions of long names."""

    kernels: list[Gpu] = field(default_factory=list)
    copies: list[Gpu] = field(default_factory=list)
    ops: list[tuple[Any, float, float, Any]] = field(default_factory=list)  # thread, start, length, key
    marks: list[tuple[Any, float, float, Any]] = field(default_factory=list)  # ranges that asked for, likewise
    launches: dict[int, tuple[Any, float, bool]] = field(default_factory=dict)  # thread, time, of a graph
    targets: list[tuple[float, float]] = field(default_factory=list)
    negative: int = 0
    untimed: int = 0
    _seen: dict[Any, Any] = field(default_factory=dict)

    def once(self, value: Any) -> Any:
        """`value`, or the equal one that came before."""
        return self._seen.setdefault(value, value)

    def once_facts(self, facts: dict[str, object]) -> Mapping[str, object]:
        known: Mapping[str, object] = self._seen.setdefault(tuple(facts.items()), facts)
        return known


def summarise(events: Iterable[Mapping[str, Any]], device_names: Mapping[int, str | None]) -> Findings:
    """The findings of a trace; where it has the target's range, of what was launched inside it alone."""
    seen = collect(events)
    inside = Inside(seen)
    kernels = [one for one in seen.kernels if inside.holds_gpu(one)]
    copies = [one for one in seen.copies if inside.holds_gpu(one)]
    tally = Tally(unit_us=1.0)
    for one in kernels:
        launch = seen.launches.get(one.correlation) if one.correlation is not None else None
        tally.add(one.name, one.start, one.length, device=one.device, facts=one.facts,
                  in_graph=bool(launch and launch[2]))
    for one in copies:
        tally.add_copy(one.name, one.start, one.length, one.device, one.moved_bytes)
    devices = tally.devices(device_names)
    return Findings(
        "torch", "trace", tally.rows(knows_graphs=bool(seen.launches)), tally.copies(), devices,
        ops=_op_rows(seen, inside, kernels), gpu_idle_pct=idle_pct(devices),
        reason=None if kernels else NO_KERNEL, warnings=_warnings(seen),
        scope=TARGET_SCOPE if seen.targets else WHOLE_SCOPE,
    )


def operator_key(event: Mapping[str, Any]) -> Any:
    """An operator's name and its inputs' shapes: what makes a row."""
    shapes = arguments_of(event).get("Input Dims") or arguments_of(event).get("Input dims") or []
    known = tuple(str(shape).replace(" ", "") for shape in shapes if shape) if isinstance(shapes, list) else ()
    return str(event.get("name")), known


def collect(events: Iterable[Mapping[str, Any]], key_of: Callable[[Mapping[str, Any]], Any] = operator_key,
            mark: str = "") -> Collected:
    """What one pass over the events keeps; `key_of` an operator says which row it is in, `mark` begins a range's name."""
    seen = Collected()
    for event in events:
        kind = event.get("cat")
        kind = kind.lower() if isinstance(kind, str) else ""  # `Kernel` in 2021, `kernel` since
        if kind in _KERNEL or kind in _COPY:
            _collect_gpu(seen, event, kind)
        elif kind in _CPU_OP and event.get("ph", "X") == "X":
            _collect_span(seen, event, seen.ops, key_of)
        elif kind in _LAUNCH:
            correlation, start = arguments_of(event).get("correlation"), _number(event.get("ts"))
            if isinstance(correlation, int) and start is not None:
                is_graph = "GraphLaunch" in str(event.get("name"))
                seen.launches[correlation] = (seen.once(_thread(event)), start, is_graph)
        elif event.get("name") == TARGET_RANGE and kind == "user_annotation":
            start, length = _number(event.get("ts")), _number(event.get("dur"))
            if start is not None and length is not None:
                seen.targets.append((start, start + length))
        elif mark and kind == "user_annotation" and str(event.get("name")).startswith(mark):
            _collect_span(seen, event, seen.marks, lambda each: str(each.get("name")))
    return seen


def _collect_gpu(seen: Collected, event: Mapping[str, Any], kind: str) -> None:
    start, length = _number(event.get("ts")), _number(event.get("dur"))
    if length is None:
        seen.untimed += 1
        return
    if length < 0:
        seen.negative += 1
        return
    arguments = arguments_of(event)
    device = arguments.get("device", event.get("pid"))
    one = Gpu(
        seen.once(str(event.get("name") or kernel_names.UNNAMED)), start or 0.0, length, _whole(device),
        _whole(arguments.get("correlation")), seen.once_facts(_facts(arguments)), _whole(arguments.get("bytes")),
    )
    (seen.kernels if kind in _KERNEL else seen.copies).append(one)


def _collect_span(seen: Collected, event: Mapping[str, Any], into: list[tuple[Any, float, float, Any]],
                  key_of: Callable[[Mapping[str, Any]], Any]) -> None:
    start, length = _number(event.get("ts")), _number(event.get("dur"))
    if start is not None and length is not None and length >= 0:
        into.append((seen.once(_thread(event)), start, length, seen.once(key_of(event))))


class Inside:
    """Whether something belongs to the target's own calls; everything does where no range was recorded."""

    def __init__(self, seen: Collected) -> None:
        self._launches = seen.launches
        self._spans = merged(seen.targets)
        self._starts = [start for start, _ in self._spans]

    def holds(self, time: float) -> bool:
        if not self._spans:
            return True
        at = bisect.bisect_right(self._starts, time) - 1
        return at >= 0 and time <= self._spans[at][1]

    def holds_gpu(self, one: Gpu) -> bool:
        """By the time of its launch, as the card runs behind; by its own start where the launch is not known."""
        launch = self._launches.get(one.correlation) if one.correlation is not None else None
        return self.holds(launch[1] if launch else one.start)


def merged(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _op_rows(seen: Collected, inside: Inside, kernels: Sequence[Gpu]) -> tuple[OpRow, ...]:
    """Operators by (name, shapes): inclusive CPU time, and the time of the kernels launched while they ran."""
    sums, outermost_us = sum_spans(seen, inside, kernels, seen.ops)
    kernel_us = sum(one.length for one in kernels)
    rows = [_op_row(key, one, kernel_us, outermost_us) for key, one in sums.items()]
    return tuple(sorted(rows, key=_op_weight))


def sum_spans(seen: Collected, inside: Inside, kernels: Sequence[Gpu],
              spans: Sequence[tuple[Any, float, float, Any]]) -> tuple[dict[Any, Sums], float]:
    """Sums by key, of the kernels launched while a span was open too, and the time of the outermost spans."""
    launched: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    for one in kernels:
        launch = seen.launches.get(one.correlation) if one.correlation is not None else None
        if launch:
            launched[launch[0]].append((launch[1], one.length))
    sums: dict[Any, Sums] = defaultdict(Sums)
    threads: dict[Any, list[tuple[float, float, Any]]] = defaultdict(list)
    for thread, start, length, key in spans:
        if inside.holds(start):
            threads[thread].append((start, length, key))
    outermost_us = 0.0
    for thread, own in threads.items():
        _sum_thread(own, sorted(launched.get(thread, [])), sums)
        outermost_us += busy_length((start, start + length) for start, length, _ in own)
    return sums, outermost_us


def _op_weight(row: OpRow) -> tuple[float, float, str, tuple[str, ...]]:
    return (-(row.device_time_us or 0.0), -row.cpu_time_us, row.name, row.input_shapes)


def _sum_thread(
    ops: list[tuple[float, float, Any]], launches: list[tuple[float, float]], sums: dict[Any, Sums],
) -> None:
    """One sweep over a thread in order of time, with the stack of operators that are open."""
    for _, length, key in ops:
        sums[key].calls += 1
        sums[key].cpu_us += length
    waiting = sorted(ops, key=lambda op: (op[0], -op[1]))
    open_ops: list[tuple[float, Any]] = []
    at = 0
    for time, length in launches:
        while at < len(waiting) and waiting[at][0] <= time:
            open_ops.append((waiting[at][0] + waiting[at][1], waiting[at][2]))
            at += 1
        open_ops = [op for op in open_ops if op[0] >= time]
        for key in {key for _, key in open_ops}:  # an operator that calls itself counts a kernel once
            sums[key].device_us += length


def _op_row(key: tuple[str, tuple[str, ...]], one: Sums, kernel_us: float, outermost_us: float) -> OpRow:
    on_gpu = kernel_us > 0
    time, total = (one.device_us, kernel_us) if on_gpu else (one.cpu_us, outermost_us)
    shapes = [kernel_names.cut(shape, 60) for shape in key[1][:SHAPES_LIMIT]]
    return OpRow(
        name=kernel_names.cut(key[0]), input_shapes=tuple(shapes) + (("…",) if len(key[1]) > SHAPES_LIMIT else ()),
        calls=one.calls, cpu_time_us=exact(one.cpu_us), device_time_us=exact(one.device_us) if on_gpu else None,
        avg_us=time / one.calls, pct=100 * time / total if total else None,
    )


def _facts(arguments: Mapping[str, Any]) -> dict[str, object]:
    facts: dict[str, object] = {}
    for key in ("grid", "block"):
        sizes = arguments.get(key)
        if isinstance(sizes, list) and all(isinstance(size, int) for size in sizes):
            facts[key] = tuple(sizes)
    for key, spelled in (("registers_per_thread", "registers per thread"), ("shared_bytes", "shared memory")):
        if isinstance(arguments.get(spelled), int):
            facts[key] = arguments[spelled]
    return facts


def arguments_of(event: Mapping[str, Any]) -> Mapping[str, Any]:
    arguments = event.get("args")
    return arguments if isinstance(arguments, dict) else {}


def _thread(event: Mapping[str, Any]) -> tuple[str, str]:
    return str(event.get("pid")), str(event.get("tid"))


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _warnings(seen: Collected) -> tuple[str, ...]:
    said = []
    if seen.negative:
        said.append(f"{seen.negative} GPU events with a negative duration were left out")
    if seen.untimed:
        said.append(f"{seen.untimed} GPU events without a duration were left out")
    return tuple(said)
