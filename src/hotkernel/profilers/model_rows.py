"""Ranks a trace's operators and marked modules by the time they take, with the inputs of their calls; opens no file."""

from __future__ import annotations

import bisect
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from hotkernel.profilers import kernel_names, trace
from hotkernel.schema.capture import MODULE, OPERATOR, CallKind, CaptureRow

MARK = "hotkernel_module:"  # the contract's capture.py begins a module's range so
_DTYPES = {"float": "float32", "double": "float64", "half": "float16", "long int": "int64", "long": "int64", "int": "int32",
           "short": "int16", "short int": "int16", "signed char": "int8", "unsigned char": "uint8"}  # as torch names them
INPUTS_LIMIT = 160  # characters
KINDS_LIMIT = 8  # of inputs, shown of a row
_VIEWS = frozenset({"view", "reshape", "transpose", "permute", "t", "slice", "select", "expand", "unsqueeze", "squeeze", "detach",
                    "as_strided", "alias", "chunk", "split", "unbind", "narrow", "flatten", "unflatten", "_unsafe_view",
                    "expand_as", "view_as", "lift_fresh", "resolve_conj", "resolve_neg", "detach_"})


@dataclass(frozen=True)
class ModelRows:
    """What a trace says of a model's step."""

    rows: tuple[CaptureRow, ...]
    total_us: float | None
    device: str  # cuda or cpu


def rank(events: Iterable[Mapping[str, Any]], modules: Sequence[Mapping[str, Any]]) -> ModelRows:
    """Operators by name and modules by class; `modules` says what the numbers in the marks mean."""
    seen = trace.collect(events, key_of=_detailed_key, mark=MARK)
    inside = trace.Inside(seen)
    kernels = [one for one in seen.kernels if inside.holds_gpu(one)]
    sums, outermost_us = trace.sum_spans(seen, inside, kernels, seen.ops)
    kernel_us = sum(one.length for one in kernels)
    total_us = kernel_us or outermost_us
    rows = [*_operators(sums, bool(kernels)), *_modules(seen, inside, kernels, modules)]
    ranked = sorted(rows, key=lambda row: (-row.time_us, row.kind, row.name))
    shown = tuple(replace(row, number=number, pct=100 * row.time_us / total_us if total_us else None)
                  for number, row in enumerate(ranked, 1))
    return ModelRows(shown, total_us or None, "cuda" if kernels else "cpu")


def _detailed_key(event: Mapping[str, Any]) -> Any:
    """An operator's name, and its inputs with dtypes and strides."""
    arguments = trace.arguments_of(event)
    columns = [arguments.get(name) for name in ("Input Dims", "Input type", "Input Strides")]
    shapes, types, strides = (column if isinstance(column, list) else [] for column in columns)
    inputs = tuple(_input(shape, types[at] if at < len(types) else "", strides[at] if at < len(strides) else [])
                   for at, shape in enumerate(shapes))
    return str(event.get("name")), inputs


def _input(shape: Any, kind: Any, strides: Any) -> str:
    word = str(kind).replace("c10::", "").lower()
    if not shape and word in ("", "scalar", "scalarlist"):
        return word or "none"
    return f"{_list(shape)} {_DTYPES.get(word, word)} {_list(strides)}"


def _list(numbers: Any) -> str:
    return str(numbers).replace(" ", "")


def _operators(sums: Mapping[Any, trace.Sums], on_gpu: bool) -> list[CaptureRow]:
    by_name: dict[str, list[CallKind]] = defaultdict(list)
    for (name, inputs), one in sums.items():
        by_name[name].append(CallKind(inputs, one.calls, one.device_us if on_gpu else one.cpu_us))
    return [_row(OPERATOR, name, kinds, sum(kind.time_us for kind in kinds), cannot=_cannot(name, kinds))
            for name, kinds in by_name.items()]


def _row(kind: str, name: str, kinds: Sequence[CallKind], time_us: float, *, paths: tuple[str, ...] = (),
         cannot: str | None = None) -> CaptureRow:
    ordered = sorted(kinds, key=lambda each: (-each.time_us, each.inputs))
    return CaptureRow(number=0, kind=kind, name=kernel_names.cut(name), time_us=time_us, pct=None, whole_if_2x=None,
                      whole_at_most=None, calls=sum(each.calls for each in kinds), inputs=_brief(ordered), paths=paths,
                      cannot=cannot, kinds=tuple(ordered[:KINDS_LIMIT]))


def _brief(kinds: Sequence[CallKind]) -> str:
    """Shapes and dtypes of the first kind's tensors."""
    tensors = [each.rpartition(" ")[0] for each in kinds[0].inputs if " " in each]
    return kernel_names.cut(" ".join(tensors) + (f" and {len(kinds) - 1} more" if len(kinds) > 1 else ""), INPUTS_LIMIT)


def _cannot(name: str, kinds: Sequence[CallKind]) -> str | None:
    """Why no target can be made of an operator, where its name or its inputs show it."""
    space, colons, word = name.partition("::")
    if not colons or space == "autograd" or "Backward" in name:
        return "a part of autograd or of the profiler's own, which no code calls"
    if word in _VIEWS:
        return "a view: it moves no data"
    if not any(each.startswith("[") and not each.startswith("[]") for kind in kinds for each in kind.inputs):
        return "it takes no tensor"
    return None


def _modules(seen: trace.Collected, inside: trace.Inside, kernels: Sequence[trace.Gpu],
             modules: Sequence[Mapping[str, Any]]) -> list[CaptureRow]:
    """One row a class; its time is that of the kernels launched, or the operators run, while it was called."""
    marks = [(thread, start, length, int(key.removeprefix(MARK))) for thread, start, length, key in seen.marks]
    marks = [mark for mark in marks if mark[3] < len(modules)]
    named = [(thread, start, length, str(modules[number]["name"])) for thread, start, length, number in marks]
    one_us = _times(seen, inside, kernels, marks)
    all_us = _times(seen, inside, kernels, named)
    by_name: dict[str, list[int]] = defaultdict(list)
    for number in one_us:
        by_name[str(modules[number]["name"])].append(number)
    rows = []
    for name, numbers in by_name.items():
        kinds = [CallKind(tuple(" ".join(words).strip() for words in modules[each]["inputs"]), *one_us[each]) for each in numbers]
        paths = dict.fromkeys(path for each in numbers for path in modules[each]["paths"])
        rows.append(_row(MODULE, name, kinds, all_us[name][1], paths=tuple(paths)))
    return rows


def _times(seen: trace.Collected, inside: trace.Inside, kernels: Sequence[trace.Gpu],
           marks: Sequence[tuple[Any, float, float, Any]]) -> dict[Any, tuple[int, float]]:
    """Calls and time of each key; one that is called inside of its own kind is counted once."""
    sums, _ = trace.sum_spans(seen, inside, kernels, marks)
    if kernels:
        return {key: (one.calls, one.device_us) for key, one in sums.items()}
    spans: dict[Any, list[tuple[float, float]]] = defaultdict(list)
    for thread, start, length, key in marks:
        if inside.holds(start):
            spans[key, thread].append((start, start + length))
    clock, found = _Clock(seen, inside), dict.fromkeys(sums, 0.0)
    for (key, thread), own in spans.items():
        found[key] += sum(clock.within(thread, start, end) for start, end in trace.merged(own))
    return {key: (one.calls, found[key]) for key, one in sums.items()}


class _Clock:
    """How much of a thread's time, from here to there, operators took."""

    def __init__(self, seen: trace.Collected, inside: trace.Inside) -> None:
        spans: dict[Any, list[tuple[float, float]]] = defaultdict(list)
        for thread, start, length, _ in seen.ops:
            if inside.holds(start):
                spans[thread].append((start, start + length))
        self._spans = {thread: trace.merged(own) for thread, own in spans.items()}
        self._starts = {thread: [start for start, _ in own] for thread, own in self._spans.items()}
        self._sums = {thread: [0.0, *accumulate(end - start for start, end in own)] for thread, own in self._spans.items()}

    def within(self, thread: Any, start: float, end: float) -> float:
        return self._until(thread, end) - self._until(thread, start)

    def _until(self, thread: Any, time: float) -> float:
        at = bisect.bisect_right(self._starts.get(thread, []), time)
        if not at:
            return 0.0
        first, last = self._spans[thread][at - 1]
        return self._sums[thread][at - 1] + min(time, last) - first
