"""Real workers under a real zygote, without a referee: a source file becomes a process with slots, one link away."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import torch

from hotkernel.harness.environment import private
from hotkernel.harness.links import WorkerLink
from hotkernel.harness.zygote import Fork, Zygote
from hotkernel.schema.verdict import Side
from hotkernel_contract import protocol
from hotkernel_contract.call import Call
from hotkernel_contract.slots import HostArena, lay_out, views

SLOTS = 4
X = torch.arange(12, dtype=torch.float32).view(3, 4)
GOOD = "import torch\ndef candidate(x):\n    return x * 2\n"


def own_environment() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "/")}


def start_zygote(folder: Path) -> Zygote:
    return Zygote(Path(sys.executable), own_environment(), folder / "zygote.log")


class Nest:
    """One connection to a zygote, and the workers forked over it."""

    def __init__(self, zygote: Zygote, folder: Path) -> None:
        self.connection = zygote.attach()
        self.fork, self.folder, self.count = Fork(self.connection), folder, 0
        fields, size = lay_out({"x": X}, {"x": SLOTS})
        self.arena = HostArena(size)
        for slot in views(self.arena.base, fields[0]):
            slot.copy_(X)
        self.files = (self.arena.fd,)
        self.layout = {"fields": [asdict(f) for f in fields], "output_fields": [], "size": size, "out_size": 0, "map": "",
                       "call": {**Call(("x",)).to_plain(), "names": ["output"], "target": "", "case": "", "baseline": ""}}

    def worker(self, source: str = GOOD, names: list[str] | None = None, cores: Sequence[int] = ()) -> WorkerLink:
        """A worker on this source; it has not said anything yet. With no names it is a baseline's."""
        self.count += 1
        scratch = self.folder / f"side-{self.count}"
        environment = private(own_environment(), scratch, scratch / "caches", "")
        file = scratch / "t_candidate.py"
        file.write_text(source, encoding="utf-8")
        spec = {"source": str(file), "names": ["t_candidate", "candidate"] if names is None else names,
                "scratch": str(scratch), "device": "cpu",
                "threads": 1, "cores": list(cores)}
        return WorkerLink(self.fork, Side.BASELINE if names == [] else Side.CANDIDATE, environment, spec, scratch / "log")

    def ready(self, worker: WorkerLink, timeout_s: float = 20.0) -> None:
        """What a trial does until a worker is ready."""
        deadline = time.monotonic() + timeout_s
        worker.expect(protocol.HELLO, deadline)
        worker.send(protocol.pack(protocol.MAP))
        worker.send_message(self.layout, self.files)
        worker.expect_ready(deadline)

    def batch(self, worker: WorkerLink, *, timeout_s: float = 20.0, nonce: int = 77) -> list[protocol.OutputAt]:
        """One batch on the host, as a referee asks for it."""
        deadline, order = time.monotonic() + timeout_s, list(range(SLOTS))
        worker.send(protocol.pack_numbers(protocol.RUN, order, nonce))
        worker.expect(protocol.DONE, deadline, nonce)
        outputs, _ = worker.receive_outputs(len(order), nonce, deadline)
        worker.send(protocol.pack(protocol.RELEASE, 0, nonce))
        worker.check_log()
        return outputs

    def close(self) -> None:
        self.connection.close()
