"""A target in a real oracle, with workers on candidates for it, and no referee; used by the tests of kinds of targets."""

from __future__ import annotations

import time
from typing import Any

import pytest
from workers import Nest, own_environment

from hotkernel.harness.batches import Checks
from hotkernel.harness.environment import private
from hotkernel.harness.host_batches import HostBatches
from hotkernel.harness.links import OracleLink, SideFault, WorkerLink

SLOTS = 5


class Judged:
    """An oracle that has loaded one target, and workers on candidates for it."""

    def __init__(self, nest: Nest, text: str, **load: Any) -> None:
        self.nest = nest
        folder = nest.folder / "oracle"
        self.file = nest.folder / "t_baseline.py"
        self.file.write_text(text, encoding="utf-8")
        self.oracle = OracleLink(nest.fork, private(own_environment(), folder, folder / "caches", ""), folder / "log", 30.0)
        loaded = self.oracle.ask("load", baseline=str(self.file), device="", threads=1, **load)
        self.said = {**loaded, **self.oracle.ask("describe"), **self.oracle.ask("prove")}
        self.nest.layout = self.oracle.ask("allocate", slots=SLOTS, copies=self.said["reuses_output"])
        self.nest.files = tuple(self.oracle.files)
        self.oracle.ask("draw", size=2 * SLOTS)
        self.batches = HostBatches(self.oracle, Checks(returned=self.said["returned"]), time.monotonic(), 0)

    def worker(self, source: str, *, is_baseline: bool = False) -> WorkerLink:
        worker = self.nest.worker(source, names=[] if is_baseline else None)
        self.nest.ready(worker)
        self.batches.ready(worker, b"")
        return worker

    def run(self, *workers: WorkerLink, kind: str = "") -> None:
        """Two batches of each on the same inputs, drawn anew."""
        self.oracle.ask("draw", size=2 * SLOTS, kind=kind)
        for worker in workers:
            for picks, order in (([0, 1, 2, 3], [4, 1, 0, 2]), ([9, 8, 3, 4, 5], [0, 1, 2, 3, 4])):
                self.batches.run(worker, picks, order, 1000.0)
                self.oracle.count()

    def fault_of(self, source: str, *before: WorkerLink, kind: str = "") -> SideFault:
        with pytest.raises(SideFault) as caught:
            self.run(*before, self.worker(source), kind=kind)
        return caught.value
