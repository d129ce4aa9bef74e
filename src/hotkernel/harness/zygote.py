"""The user's Python with torch imported once, kept warm, forking oracles and workers; the server owns it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import hotkernel_contract
from hotkernel.errors import ToolError
from hotkernel.harness.environment import allowed
from hotkernel.harness.referees import RefereeProcess
from hotkernel.machine import tree
from hotkernel.machine.process import Job
from hotkernel.machine.supervised_job import SupervisedJob
from hotkernel.schema.gpu import Gpu
from hotkernel_contract import protocol

IMPORT_TIMEOUT_S = 180.0  # torch from a cold disk takes many seconds; a broken CUDA install may take minutes to say so
ANSWER_TIMEOUT_S = 60.0
HAS_ENDED, START_ANOTHER = "the Python that was kept warm has ended by itself", "call again: another is started"


@dataclass(frozen=True)
class Versions:
    """What a zygote runs; `hip` is set on ROCm, which cannot be judged yet."""

    python: str
    torch: str
    cuda: str | None
    hip: str | None


class Zygote:
    """One running zygote and the socket that it lives by: when that closes, it ends with all its children."""

    def __init__(self, python: Path, environment: Mapping[str, str], log: Path) -> None:
        if not hasattr(os, "fork"):
            raise ToolError("targets cannot be judged on native Windows yet", fix="run hotkernel inside WSL2")
        self.key = (python, tuple(sorted(allowed(environment).items())))
        self.job = SupervisedJob()  # a zygote that is killed cannot end what its workers left behind
        self.owner, theirs = socket.socketpair()
        boot = Path(hotkernel_contract.__path__[0]) / "boot.py"
        home = {"HOME": environment.get("HOME", str(log.parent))}
        with _writable(log) as words:
            self.process = self.job.start(
                [python, boot, str(theirs.fileno())], env={**allowed(environment), **home}, stdin=subprocess.DEVNULL,
                stdout=words, stderr=words, pass_fds=(theirs.fileno(),))
        theirs.close()
        self.pid = self.process.pid  # until it has said its own
        self.versions = self._hello(python, log)

    def _hello(self, python: Path, log: Path) -> Versions:
        self.owner.settimeout(IMPORT_TIMEOUT_S)
        try:
            hello, _ = protocol.receive_message(self.owner)
        except (EOFError, OSError, protocol.Junk):
            self.close()
            said = log.read_text(encoding="utf-8", errors="replace")[-2000:]
            raise ToolError(f"{python} cannot run hotkernel's contract", fix="check that this Python starts and imports torch",
                            detail=said) from None
        if "error" in hello:
            self.close()
            raise ToolError(f"{python} cannot import torch: {hello['error'][:500]}",
                            fix="set HOTKERNEL_PYTHON to the python of the environment that has your torch")
        if hello["hip"]:
            self.close()
            raise ToolError("this torch is built for ROCm, which hotkernel cannot judge yet",
                            fix="use a CUDA or CPU build of torch")
        self.pid = int(hello["pid"])
        self.cores = tuple(int(core) for core in hello["cores"])  # that a side has: all but one
        self._files = {Path(name): _stamp(Path(name)) for name in hello["files"]}
        return Versions(hello["python"], hello["torch"], hello["cuda"], hello["hip"])

    def attach(self) -> socket.socket:
        """A connection for one referee; when it closes, what it forked ends."""
        ours, theirs = socket.socketpair()
        self.owner.settimeout(ANSWER_TIMEOUT_S)
        try:
            protocol.send_message(self.owner, {"op": "attach"}, (theirs.fileno(),))
            protocol.receive_message(self.owner)
        except (EOFError, OSError):
            self.close()
            raise ToolError(HAS_ENDED, fix=START_ANOTHER) from None
        finally:
            theirs.close()
        return ours

    @property
    def is_alive(self) -> bool:
        """Whether it still runs: below a supervisor, its own end is seen before the supervisor's."""
        return self.process.poll() is None and tree.is_running(self.pid)

    @property
    def is_current(self) -> bool:
        """Whether what it has loaded is still what is installed: a torch that was upgraded in place is another."""
        return all(_stamp(file) == stamp for file, stamp in self._files.items())

    def close(self) -> None:
        """End it with everything it forked."""
        self.owner.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.job.end(self.process)


def _stamp(file: Path) -> tuple[int, int] | None:
    """When a file was written and how large it is; None when it is gone."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@contextlib.contextmanager
def _writable(log: Path) -> Iterator[IO[bytes]]:
    """The log, open for writing; raises ToolError where it cannot be."""
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        words = open(log, "wb")  # noqa: SIM115 - closed below; only the opening is guarded
    except OSError as error:
        raise ToolError(f"the state folder {log.parent} cannot be written: {error.strerror or error}",
                        fix="make room or give write permission there, or set HOTKERNEL_STATE_DIR to another folder") from None
    with words:
        yield words


class Nursery:
    """Keeps one zygote between calls, and throws it away when the interpreter, its torch or the environment changes.

    A referee that was started ahead of its verify is kept too; where calls go on (a server), there is always one.
    """

    def __init__(self, *, is_served: bool = False) -> None:
        self.is_served = is_served
        self._zygote: Zygote | None = None
        self._referee: RefereeProcess | None = None
        self.gpus: tuple[tuple[Gpu, ...], float] = ((), 0.0)  # of this machine, and when the driver was asked

    def zygote(self, python: Path, environment: Mapping[str, str], log: Path) -> Zygote:
        """The warm zygote for this interpreter and environment, or a fresh one."""
        key = (python, tuple(sorted(allowed(environment).items())))
        if self._zygote and (self._zygote.key != key or not self._zygote.is_alive or not self._zygote.is_current):
            self.close()
        if self._zygote is None:
            self._zygote = Zygote(python, environment, log)
        return self._zygote

    def referee(self, job: Job, environment: Mapping[str, str]) -> RefereeProcess:
        """A referee that waits for its request, this job's to end from now on: the one that was started ahead, if it fits."""
        taken = self.start_ahead(environment)
        taken.hand_over(job)
        self._referee = None
        return taken

    def start_ahead(self, environment: Mapping[str, str]) -> RefereeProcess:
        """See that a referee waits for the next verify: its start takes 0.1 to 0.4 s."""
        if not (self._referee and self._referee.is_waiting and self._referee.environment == environment):
            self._end_ahead()
            self._referee = RefereeProcess(environment)
        return self._referee

    def _end_ahead(self) -> None:
        if self._referee:
            self._referee.close()
        self._referee = None

    def close(self) -> None:
        """End what is kept."""
        self._end_ahead()
        if self._zygote:
            self._zygote.close()
        self._zygote = None


class Fork:
    """A referee's connection to the zygote: forks children and ends them."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        connection.settimeout(ANSWER_TIMEOUT_S)

    def child(self, role: str, environment: Mapping[str, str], spec: Mapping[str, Any], log: Path) -> tuple[int, socket.socket]:
        """A forked oracle or worker: its pid and our end of its channel."""
        ours, theirs = socket.socketpair()
        with theirs, open(log, "ab") as words:
            answer = self._ask({"op": "fork", "role": role, "env": dict(environment), "spec": dict(spec)},
                               (theirs.fileno(), words.fileno()))
        return int(answer["pid"]), ours

    def end(self, pids: Sequence[int], *, wait: bool = True) -> None:
        """End children, their sessions and everything below them; `wait` until they are gone (a context takes a while)."""
        self._ask({"op": "end", "pids": list(pids), "wait": wait})

    def settle(self) -> None:
        """Wait until the processes that were ended are gone."""
        self._ask({"op": "settle"})

    def sweep(self) -> int:
        """End processes that left their parent's tree; returns how many there were."""
        return int(self._ask({"op": "sweep"})["orphans"])

    def _ask(self, question: Mapping[str, Any], files: tuple[int, ...] = ()) -> dict[str, Any]:
        """One question and its answer; raises ToolError where the zygote is gone or does not answer."""
        try:
            protocol.send_message(self.connection, question, files)
            answer, _ = protocol.receive_message(self.connection)
        except TimeoutError:
            raise ToolError(f"the Python that is kept warm did not {question['op']} within {ANSWER_TIMEOUT_S:.0f} s",
                            fix="call again when the machine is less busy") from None
        except (EOFError, OSError):
            raise ToolError(HAS_ENDED, fix=START_ANOTHER) from None
        return dict(answer)
