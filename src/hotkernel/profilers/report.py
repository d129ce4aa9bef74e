"""What any report comes down to: launches added up to ranked rows, shares and idle time; and what a file is."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hotkernel.profilers import kernel_names
from hotkernel.schema.profile import CopyRow, DeviceTime, KernelRow, OpRow, ProcessTime

TEXT_LIMIT = 300  # a warning or a piece of advice


@dataclass(frozen=True)
class Findings:
    """Everything one report says, ranked and not yet cut."""

    tool: str
    form: str
    kernels: tuple[KernelRow, ...] = ()
    copies: tuple[CopyRow, ...] = ()
    devices: tuple[DeviceTime, ...] = ()
    processes: tuple[ProcessTime, ...] = ()
    ops: tuple[OpRow, ...] = ()
    gpu_idle_pct: float | None = None
    reason: str | None = None
    warnings: tuple[str, ...] = ()
    scope: str | None = None

    def noting(self, *warnings: str) -> Findings:
        """The same with more to say."""
        return dataclasses.replace(self, warnings=(*self.warnings, *warnings))

    @property
    def n_launches(self) -> int:
        return sum(row.calls for row in self.kernels)

    @property
    def kernel_time_us(self) -> float | None:
        return total_us(self.kernels)


def total_us(rows: Iterable[KernelRow]) -> float | None:
    """The kernels' time together; None where no row has one."""
    known = [row.device_time_us for row in rows if row.device_time_us is not None]
    return exact(sum(known)) if known else None


def rank(rows: Iterable[KernelRow]) -> tuple[KernelRow, ...]:
    """Rows by time, those without one last; with shares, and with names cut for show once they tell rows apart."""
    kept = list(rows)
    short_of = kernel_names.shorts(row.name for row in kept)
    total = total_us(kept)
    finished = [
        dataclasses.replace(
            row,
            name=kernel_names.cut(row.name) or kernel_names.UNNAMED,
            short_name=short_of[row.name],
            pct=100 * row.device_time_us / total if total and row.device_time_us is not None else None,
        )
        for row in kept
    ]
    return tuple(sorted(finished, key=_weight))


def _weight(row: KernelRow) -> tuple[bool, float, str, str, int]:
    return (row.device_time_us is None, -(row.device_time_us or 0.0), row.name, row.short_name, row.launch or 0)


def kind_of(head: bytes) -> str:
    """What a file is by its first bytes: sqlite, ncu-rep, nsys-rep, gzip, json, text, binary or empty."""
    if head.startswith(b"SQLite format 3\0"):
        return "sqlite"
    if head.startswith(b"NVR\0"):
        return "ncu-rep"
    if head.startswith(b"NVIDIA Tegra Profiler Report"):
        return "nsys-rep"
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "text"  # UTF-16, as PowerShell's `>` writes it
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start:
        return "empty"
    if b"\0" in head:
        return "binary"
    # A log may begin with a bracketed tag: JSON's array goes on with an object.
    if start.startswith(b"{") or (start.startswith(b"[") and start[1:].lstrip().startswith((b"{", b"]"))):
        return "json"
    return "text"


def busy_length(spans: Iterable[tuple[float, float]]) -> float:
    """The length of the union of spans: what runs at the same time counts once."""
    busy, reached = 0.0, float("-inf")
    for start, end in sorted(spans):
        busy += max(0.0, end - max(start, reached))
        reached = max(reached, end)
    return busy


@dataclass
class _Sum:
    """One kernel's launches so far; what they do not agree on is dropped."""

    calls: int = 0
    time: float = 0
    low: float = float("inf")
    high: float = float("-inf")
    in_graph: int = 0
    facts: dict[str, object] = field(default_factory=dict)
    devices: set[int] = field(default_factory=set)
    processes: set[int] = field(default_factory=set)

    def agree(self, facts: Mapping[str, object]) -> None:
        if not self.calls:
            self.facts = dict(facts)
        elif self.facts != facts:
            self.facts = {key: value for key, value in self.facts.items() if facts.get(key) == value}


class Tally:
    """Adds launches, copies and fills up; times come in one unit, given in microseconds as `unit_us`."""

    def __init__(self, unit_us: float) -> None:
        self._unit_us = unit_us
        self._kernels: dict[str, _Sum] = {}
        self._copies: dict[str, tuple[int, float, int | None]] = {}
        self._spans: dict[int, list[tuple[float, float]]] = {}
        self._device_kernels: dict[int, tuple[int, float]] = {}
        self._process_kernels: dict[int, tuple[int, float]] = {}

    def add(
        self,
        name: str,
        start: float,
        length: float,
        *,
        device: int | None = None,
        process: int | None = None,
        in_graph: bool = False,
        facts: Mapping[str, object] | None = None,
    ) -> None:
        """One launch; `facts` are grid, block, registers_per_thread and shared_bytes where known."""
        one = self._kernels.setdefault(name, _Sum())
        one.agree(facts or {})
        one.calls += 1
        one.time += length
        one.low, one.high = min(one.low, length), max(one.high, length)
        one.in_graph += in_graph
        if device is not None:
            one.devices.add(device)
            count, time = self._device_kernels.get(device, (0, 0.0))
            self._device_kernels[device] = (count + 1, time + length)
        if process is not None:
            one.processes.add(process)
            count, time = self._process_kernels.get(process, (0, 0.0))
            self._process_kernels[process] = (count + 1, time + length)
        self.occupy(start, length, device)

    def add_copy(self, name: str, start: float, length: float, device: int | None, moved: int | None) -> None:
        """One copy or fill."""
        calls, time, bytes_ = self._copies.get(name, (0, 0.0, 0))
        both = None if moved is None or bytes_ is None else bytes_ + moved
        self._copies[name] = (calls + 1, time + length, both)
        self.occupy(start, length, device)

    def occupy(self, start: float, length: float, device: int | None) -> None:
        """The device is busy then."""
        self._spans.setdefault(-1 if device is None else device, []).append((start, start + length))

    def rows(self, *, knows_graphs: bool = False) -> tuple[KernelRow, ...]:
        return rank(self._row(name, one, knows_graphs) for name, one in self._kernels.items())

    def _row(self, name: str, one: _Sum, knows_graphs: bool) -> KernelRow:
        unit = self._unit_us
        return KernelRow(
            name=name, short_name="", calls=one.calls, device_time_us=exact(one.time * unit),
            min_us=exact(one.low * unit), max_us=exact(one.high * unit),
            devices=tuple(sorted(one.devices)), processes=tuple(sorted(one.processes)),
            graph_calls=one.in_graph if knows_graphs else None,
            **one.facts,  # type: ignore[arg-type]  # the keys are the callers', named in `add`
        )

    def copies(self) -> tuple[CopyRow, ...]:
        rows = [CopyRow(kernel_names.cut(name), calls, exact(time * self._unit_us), moved)
                for name, (calls, time, moved) in self._copies.items()]
        return tuple(sorted(rows, key=lambda row: (-row.device_time_us, row.name)))

    def devices(self, names: Mapping[int, str | None]) -> tuple[DeviceTime, ...]:
        return tuple(self._device(device, names.get(device)) for device in sorted(self._spans) if device >= 0)

    def _device(self, device: int, name: str | None) -> DeviceTime:
        unit, spans = self._unit_us, self._spans[device]
        busy = busy_length(spans)
        window = max(end for _, end in spans) - min(start for start, _ in spans)
        launches, time = self._device_kernels.get(device, (0, 0.0))
        return DeviceTime(
            device=device, name=kernel_names.cut(name) if name else None, launches=launches,
            kernel_us=exact(time * unit), busy_us=exact(busy * unit), window_us=exact(window * unit),
            idle_pct=100 * (1 - busy / window) if window > 0 else None,
        )

    def processes(self, names: Mapping[int, str | None]) -> tuple[ProcessTime, ...]:
        return tuple(
            ProcessTime(pid, kernel_names.cut(names.get(pid) or "") or None, launches, exact(time * self._unit_us))
            for pid, (launches, time) in sorted(self._process_kernels.items())
        )


def exact(time_us: float) -> float:
    """Without the noise of adding binary fractions up: clocks tick in nanoseconds, this keeps picoseconds."""
    return round(time_us, 6)


def idle_pct(devices: Sequence[DeviceTime]) -> float | None:
    """The idle share of all devices' windows together; None where there is no window."""
    windows = sum(device.window_us or 0.0 for device in devices)
    if not windows:
        return None
    return max(0.0, 100 * (1 - sum(device.busy_us or 0.0 for device in devices) / windows))
