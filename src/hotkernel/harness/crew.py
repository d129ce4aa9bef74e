"""The processes that a verify measures in: forked, greeted, told to load, ended; measures nothing."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.harness import environment
from hotkernel.harness.links import SideFault, WorkerLink
from hotkernel.harness.plan import Wanted
from hotkernel.harness.zygote import Fork
from hotkernel.machine import folders
from hotkernel.schema.request import Request
from hotkernel.schema.verdict import Batch, Side, Stage
from hotkernel_contract import protocol

BUILD_TIMEOUT_S = 600.0  # nvcc takes a minute for one file, max-autotune several
HANGS_S, FAR_SLOWER = 1.0, 10  # a load that is still out after so long, and after so many times the baseline's, is the side's
CACHE_LIMIT_BYTES = 2 << 30


@dataclass(frozen=True)
class SideSource:
    """What one side runs: a file, the names its function may have, and the folder of its compile caches."""

    path: Path
    names: tuple[str, ...]
    caches: Path


@dataclass(frozen=True)
class Setting:
    """Everything about a verify that is not measured."""

    baseline_file: Path
    sources: Mapping[Side, SideSource]
    environment: Mapping[str, str]
    scratch: Path
    oracle_caches: Path
    device: str  # cuda, cpu or "" for the target's choice
    visible: str  # for CUDA_VISIBLE_DEVICES
    cores: tuple[int, ...]
    case: str  # of a target with several; empty: the first
    deadline: float  # of time.monotonic
    wanted: Wanted = field(default_factory=Wanted)

    @property
    def left_s(self) -> float:
        """Seconds until the verify's timeout."""
        return self.deadline - time.monotonic()


def setting_of(request: Request, looks: tuple[int, ...]) -> Setting:
    """The setting that a verify's request asks for, with its time beginning now."""
    sources = {Side(name): SideSource(Path(s["path"]), tuple(s["names"]), Path(s["caches"])) for name, s in request.sides.items()}
    return Setting(
        baseline_file=Path(request.baseline_file), sources=sources, environment=request.environment,
        scratch=Path(request.scratch), oracle_caches=Path(request.state) / "caches" / f"oracle-{request.versions['torch']}",
        device=request.device, visible=request.visible, cores=tuple(request.cores), case=request.case,
        deadline=time.monotonic() + request.timeout_s,
        wanted=Wanted(looks=looks, values_per_pair=request.values_per_pair))


@dataclass
class PairOfWorkers:
    """The processes of one pair, one a side."""

    stage: Stage
    number: int
    workers: dict[Side, WorkerLink]
    alone: list[Batch] = field(default_factory=list)  # of the baseline, before a line of the candidate was loaded


class Crew:
    """Workers of all sides. On a card, contexts are made one after the other, some 0.1 s each on an H200, whoever waits;
    so those of the first look are forked before the oracle is done with its own work."""

    def __init__(self, fork: Fork, setting: Setting) -> None:
        self.fork, self.setting = fork, setting
        self.alive: list[WorkerLink] = []
        self.held: int | None = None  # what every worker so far was confined by, in bits of protocol.CONFINEMENT
        self._early: list[dict[Side, WorkerLink]] = []  # for the first look, not in use yet
        self._builders: dict[Side, WorkerLink] = {}  # likewise
        self._greeted: set[str] = set()
        self._started = 0
        self._loaded_s: dict[Side, float] = {}  # what each side took when it was last told to load

    def start_builders(self, device: str) -> None:
        """Fork who will compile what is not compiled yet; no line of a candidate is loaded before `ask_to_load`."""
        self._builders = {side: self._fork_worker(side, device) for side in self.unbuilt()}

    def start_early(self, device: str) -> None:
        """Fork the first look's workers; likewise."""
        sides = list(self.setting.sources)
        self._early = [{side: self._fork_worker(side, device) for side in sides} for _ in range(self.setting.wanted.looks[0])]

    def greet_early(self) -> None:
        """Wait for the contexts of those that were forked ahead."""
        self.greet([worker for workers in self._early for worker in workers.values()])

    def one_a_side(self, sides: Sequence[Side], device: str) -> dict[Side, WorkerLink]:
        """A worker for each side: one forked ahead where there is one."""
        return self._early.pop() if self._early else {side: self._fork_worker(side, device) for side in sides}

    def builder(self, side: Side, device: str) -> WorkerLink:
        """The worker that compiles a side's code."""
        return self._builders.pop(side) if side in self._builders else self._fork_worker(side, device)

    def _fork_worker(self, side: Side, device: str) -> WorkerLink:
        source = self.setting.sources[side]
        self._started += 1
        folder = self.setting.scratch / f"{side}-{self._started}"
        chosen = environment.private(self.setting.environment, folder, source.caches, self.setting.visible)
        spec = {
            "source": str(source.path), "names": list(source.names), "scratch": str(folder), "device": device,
            "threads": len(self.setting.cores), "cores": list(self.setting.cores),
        }
        worker = WorkerLink(self.fork, side, chosen, spec, folder / "log")
        worker.until = self.setting.deadline
        self.alive.append(worker)
        return worker

    def greet(self, workers: Sequence[WorkerLink]) -> None:
        """Wait until these processes are there, with their contexts; raises ToolError, for no line of a side has run yet."""
        for worker in workers:
            if worker.name not in self._greeted:
                try:
                    held = worker.expect(protocol.HELLO, self._deadline()).number  # trusted, for the same reason
                except SideFault as fault:
                    raise ToolError(f"a process to measure in did not start: {fault.fault.reason}",
                                    fix="see that the card has memory left and that this machine may start processes") from None
                self.held = held if self.held is None else self.held & held
                self._greeted.add(worker.name)

    def ask_to_load(self, workers: Sequence[WorkerLink], layout: Mapping[str, Any], files: Sequence[int]) -> None:
        """Have workers map the slots, load their code and call it."""
        self.greet(workers)
        for worker in workers:
            worker.send(protocol.pack(protocol.MAP))
            worker.send_message(layout, tuple(files))

    def wait_until_ready(self, workers: Sequence[WorkerLink]) -> list[bytes]:
        """Wait until their functions have run; the handles of their DONE events, none on the CPU; raises SideFault."""
        began, handles = time.monotonic(), []
        first_s: dict[Side, float] = {}
        for worker in workers:
            try:
                handles.append(worker.expect_ready(self._deadline()).body[: protocol.HANDLE_BYTES])
            except SideFault as fault:
                if fault.fault.rule != "timeout":
                    raise
                raise _late(worker, time.monotonic() - began, {**self._loaded_s, **first_s}.get(Side.BASELINE)) from None
            first_s.setdefault(worker.side, time.monotonic() - began)
        self._loaded_s |= first_s
        return handles

    def _deadline(self) -> float:
        return time.monotonic() + min(BUILD_TIMEOUT_S, self.setting.left_s)

    def unbuilt(self) -> list[Side]:
        """The sides whose code was not compiled yet."""
        return [side for side, source in self.setting.sources.items() if not (source.caches / "built").exists()]

    def mark_built(self, side: Side) -> None:
        """Keep a side's compile caches from now on; raises SideFault where they are too large."""
        caches = self.setting.sources[side].caches
        size = folders.bytes_on_disk(caches)
        if size > CACHE_LIMIT_BYTES:
            folders.remove(caches)
            reason = f"its compile caches take {size >> 20} MiB, of {CACHE_LIMIT_BYTES >> 20} that it may have"
            raise SideFault.of(side, "cache_flood", reason)
        (caches / "built").touch()

    def end(self, workers: Sequence[WorkerLink]) -> None:
        """End some processes, all at once, and do not wait: a context's end takes a tenth of a second."""
        self._hang_up(workers, wait=False)

    def end_all(self) -> None:
        """End every process and wait until they are gone."""
        self._hang_up(list(self.alive), wait=True)
        self._early.clear()
        self._builders.clear()

    def _hang_up(self, workers: Sequence[WorkerLink], *, wait: bool) -> None:
        for worker in workers:
            worker.channel.close()
            self.alive.remove(worker)
        self.fork.end([worker.pid for worker in workers], wait=wait)


def _late(worker: WorkerLink, waited_s: float, baseline_s: float | None) -> ToolError | SideFault:
    """What a load that did not end is: the side's fault where it had far more time than the baseline took, else nobody's."""
    beside = "" if baseline_s is None else f", where the baseline's took {baseline_s:.1f} s"
    if worker.side is Side.BASELINE or waited_s < max(HANGS_S, FAR_SLOWER * (baseline_s or 0.0)):
        return ToolError(f"the verify ran out of its timeout: {waited_s:.1f} s were not enough to load the {worker.side}'s code "
                         f"and call it once{beside}", fix="give a larger timeout, or try again when the machine is less busy")
    return worker.fault("timeout", f"it did not come back in time: {waited_s:.1f} s were not enough to load its code and call it "
                        f"once{beside}; it hangs, or needs a larger timeout")
