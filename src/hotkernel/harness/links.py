"""The referee's ends of the channels: questions to the oracle, frames to and from a worker; measures nothing."""

from __future__ import annotations

import contextlib
import math
import os
import secrets
import select
import time
from pathlib import Path
from typing import Any, BinaryIO

from hotkernel.errors import ToolError
from hotkernel.harness.zygote import Fork
from hotkernel.machine import tree
from hotkernel.schema.verdict import Fault, Side, VerdictKind
from hotkernel_contract import protocol
from hotkernel_contract.protocol import Frame

TAIL_BYTES = 2000
LOG_LIMIT_BYTES = 64 << 20  # a worker that writes more than this fills somebody's disk
PARTING_S = 1.0
LIMBER_UP_US = 5_000.0  # a longer call has no use for one ahead of it: a first call is 0.1 ms colder at most
SAID_LIMIT = 400  # of a candidate's own words in a reason: they are data

_FAULTS = {  # what a worker may say of itself -> the rule and the kind it is for a candidate
    protocol.FAULT_IMPORT: ("import_failed", VerdictKind.INVALID, "cannot be loaded"),
    protocol.FAULT_NO_CALLABLE: ("no_callable", VerdictKind.INVALID, "has nothing to call"),
    protocol.FAULT_CALL: ("raised", VerdictKind.INVALID, "raised"),
    protocol.FAULT_OUTPUT: ("wrong_output", VerdictKind.INCORRECT, "did not return a right kind of output"),
    protocol.FAULT_MEMORY: ("out_of_memory", VerdictKind.INVALID, "ran out of memory"),
}


class SideFault(Exception):
    """A side did something that decides the verdict."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault

    @classmethod
    def of(cls, side: Side, rule: str, reason: str, kind: VerdictKind = VerdictKind.INVALID) -> SideFault:
        """One that says whose it is."""
        return cls(Fault(kind, rule, f"the {side}: {reason}", side))


class Target:
    """The oracle refused the target: raised as ToolError with this fix."""

    FIX = "mend the target's baseline file, or make it anew with new_target"


class OracleLink:
    """Questions to the oracle and its answers."""

    def __init__(self, fork: Fork, environment: dict[str, str], log: Path, timeout_s: float) -> None:
        self.fork, self.log = fork, log
        self.pid, self.channel = fork.child("oracle", environment, {}, log)
        self.words = open(log, "rb")  # noqa: SIM115 - as long as this link
        self.channel.settimeout(timeout_s)
        self.files: list[int] = []

    def ask(self, op: str, *, within_s: float | None = None, **arguments: Any) -> dict[str, Any]:
        """One question; raises ToolError when the oracle refuses the target or fails, TimeoutError past `within_s`."""
        self.tell(op, **arguments)
        if within_s is not None and not select.select([self.channel], [], [], within_s)[0]:
            raise TimeoutError(op)
        return self.answer(op)

    def tell(self, op: str, **arguments: Any) -> None:
        """Ask and do not wait; `answer` must follow."""
        with contextlib.suppress(OSError):  # it is gone: whoever waits for its answer says so
            protocol.send_message(self.channel, {"op": op, **arguments})

    def answer(self, op: str) -> dict[str, Any]:
        try:
            answer, self.files = protocol.receive_message(self.channel)
        except TimeoutError:
            raise ToolError(f"the verify ran out of its timeout while the oracle did {op!r}",
                            fix="give a larger timeout, or make the baseline or its reference quicker") from None
        except (EOFError, OSError):
            said = tail_of(self.words)
            raise ToolError(f"the oracle ended in {op!r}",
                            fix="a reference that crashes or needs more memory than there is does this; the detail may say",
                            detail=said) from None
        if "refused" in answer:
            raise ToolError(answer["refused"], fix=Target.FIX)
        if "error" in answer:
            said = tail_of(self.words)
            raise ToolError(f"the target's baseline or reference failed: {answer['error']}", fix=Target.FIX, detail=said)
        return dict(answer)

    def count(self) -> None:
        """Have the last batch's precision compared, for it was timed and is not void; raises SideFault."""
        for side, (rule, reason) in self.ask("count")["faults"].items():
            raise SideFault.of(Side(side), rule, reason, VerdictKind.INCORRECT)

    def end(self) -> None:
        self.channel.close()
        self.fork.end([self.pid])


class WorkerLink:
    """One side's process: frames of one size, in an order that the protocol fixes; anything else is a fault."""

    def __init__(self, fork: Fork, side: Side, environment: dict[str, str], spec: dict[str, Any], log: Path) -> None:
        self.fork, self.side, self.log = fork, side, log
        self.name = log.parent.name  # of this process, among all of a verify
        self.pid, self.channel = fork.child("worker", environment, spec, log)
        self.words = open(log, "rb")  # noqa: SIM115 - as long as this link; its code is loaded later
        self.until = math.inf  # of time.monotonic: no wait for it is longer
        self.segments: dict[int, tuple[int, str]] = {}
        self.standing: list[int] | None = None  # its processes while it stands still
        self.over_us = 0.0  # of cores, beyond what those that it was given can give, in all its batches on the CPU
        self.ahead_us: float | None = None  # what the last call for nothing took, on one core
        self.stopped_us = 0.0  # what they had had of the cores when they stopped
        self.setup_s: float | None = None  # what its own `setup` took, where it has one

    def stand_still(self) -> bool:
        """Stop all of its tree; False when something of it goes on."""
        self.standing = tree.stand_still(self.pid)
        self.stopped_us = tree.used_us(self.standing or ())
        return self.standing is not None

    def ran_us(self) -> float:
        """What it had of the cores since it stands still; 0 while it does not, infinite where it runs now, for what a thread
        has had is booked when it stops, or milliseconds late. Whoever starts another process runs itself."""
        if self.standing is None:
            return 0.0
        ran_us = tree.used_us(self.standing) - self.stopped_us
        return ran_us if tree.is_standing(self.standing) else math.inf

    def limber(self, slot: int, outputs: int, call_us: float, deadline: float) -> bool:
        """One short call on what lies in a slot, for nothing: what cools down while it stands is warm then. Whether it stands."""
        if call_us > LIMBER_UP_US:
            self.ahead_us = None
            return True
        number, started, used_us = nonce(), time.perf_counter(), self.stopped_us
        self.go_on()
        self.send(protocol.pack_numbers(protocol.RUN, [slot], number))
        for _ in range(protocol.frames_of(outputs)):
            self.expect(protocol.DONE, deadline, number)
        self.receive_outputs(outputs, number, deadline)
        self.send(protocol.pack(protocol.RELEASE, 0, number))
        tree.wait_until_idle(self.pid)  # it lets go of the outputs, which is not the next interval's
        stands = self.stand_still()
        self.ahead_us = min(1e6 * (time.perf_counter() - started), max(0.0, self.stopped_us - used_us))  # stalls are nobody's
        return stands

    def late_us(self, mine: list[int], by_then_us: float, wall_us: float) -> float:
        """How long a side may have worked on behind its last word: `wall_us` until it stood, or less where its time on cores,
        `by_then_us` at the word, says so. `mine`: its processes then.

        A thread in a call that no signal interrupts has the others go on, and the work they do then is in the outputs too.
        """
        gone = set(mine) - set(self.standing or ())  # with what it had had, so that the difference would say nothing
        return wall_us if gone else max(0.0, min(wall_us, self.stopped_us - by_then_us))

    def go_on(self) -> None:
        """Its turn: let its tree run."""
        tree.go_on(self.standing or [self.pid])
        self.standing = None

    def expect(self, kind: int, deadline: float, nonce: int = 0) -> Frame:
        """The next frame, which must be of this kind; raises SideFault."""
        frame = self.receive(deadline)
        if frame.kind != kind or frame.nonce != nonce:
            raise self.fault("out_of_protocol", "its process wrote to the referee's channel out of turn")
        return frame

    def expect_ready(self, deadline: float) -> Frame:
        """READY, and before it the bounds of the side's own setup where it has one; raises SideFault."""
        frame = self.receive(deadline)
        if frame.kind == protocol.SETUP and frame.number == 1 and self.setup_s is None:
            began = time.monotonic()
            self.expect(protocol.SETUP, deadline)
            self.setup_s = time.monotonic() - began
            frame = self.receive(deadline)
        if frame.kind != protocol.READY or frame.nonce:
            raise self.fault("out_of_protocol", "its process wrote to the referee's channel out of turn")
        return frame

    def receive(self, deadline: float) -> Frame:
        """The next frame of any kind; raises SideFault when there is none in time or it is none."""
        try:
            frame = protocol.unpack(protocol.receive_exactly(self.channel, protocol.FRAME_BYTES, min(deadline, self.until)))
        except protocol.Junk:
            raise self.fault("out_of_protocol", "its process wrote bytes of its own to the referee's channel") from None
        except TimeoutError:
            raise self.fault("timeout", "it did not come back in time") from None
        except (EOFError, ConnectionError):
            raise self.gone() from None
        if frame.kind == protocol.FAULT:
            rule, kind, what = _FAULTS.get(frame.number, ("raised", VerdictKind.INVALID, "failed"))
            raise self.fault(rule, f"it {what}: {clean(protocol.text_of(frame))}", kind)
        if frame.kind not in protocol.FROM_WORKER:
            raise self.fault("out_of_protocol", "its process wrote a frame that is not a worker's")
        return frame

    def receive_outputs(self, count: int, nonce: int, deadline: float) -> tuple[list[protocol.OutputAt], list[int]]:
        """Where the `count` outputs of a batch lie, and the numbers of device allocations seen for the first time."""
        outputs: list[protocol.OutputAt] = []
        new: list[int] = []
        while True:
            frame = self.receive(deadline)
            if frame.nonce != nonce or max(len(outputs), len(new)) > count:  # an output lies in one allocation
                raise self.fault("out_of_protocol", "its process answered a batch that was not asked for")
            if frame.kind == protocol.END:
                return outputs, new
            if frame.kind == protocol.SEGMENT:
                number, size, handle = protocol.unpack_segment(frame)
                self.segments[number] = (size, handle.hex())
                new.append(number)
            elif frame.kind == protocol.OUTPUT:
                try:
                    outputs += protocol.unpack_outputs(frame)
                except (protocol.Junk, ValueError):
                    raise self.fault("out_of_protocol", "its process described an output that cannot be") from None
            else:
                raise self.fault("out_of_protocol", "its process wrote to the referee's channel out of turn")

    def send(self, data: bytes) -> None:
        try:
            self.channel.sendall(data)
        except OSError:
            raise self.parting() from None

    def send_message(self, message: Any, files: tuple[int, ...]) -> None:
        """A JSON message with open files; to a worker, never from one."""
        try:
            protocol.send_message(self.channel, message, files)
        except OSError:
            raise self.parting() from None

    def parting(self) -> SideFault:
        """What a process that does not listen any more has said last: its fault, or that it is gone."""
        try:
            while True:
                self.receive(time.monotonic() + PARTING_S)
        except SideFault as fault:
            return fault

    def fault(self, rule: str, reason: str, kind: VerdictKind = VerdictKind.INVALID) -> SideFault:
        return SideFault.of(self.side, rule, reason, kind)

    def wrong(self, rule: str, reason: str, kind: VerdictKind = VerdictKind.INVALID) -> SideFault:
        """The fault of what lies in its outputs; where its process is gone nothing does, and only that is its fault."""
        self.stand_still()  # one that is killed while it stands has no memory any more, and its channel yet: until it is gone
        return self.fault(rule, reason, kind) if tree.is_running(self.pid) else self.gone()

    def gone(self) -> SideFault:
        return self.fault("early_exit", f"its process ended by itself{self.last_words()}")

    def check_log(self) -> None:
        """Raise SideFault when the process floods its log."""
        if os.fstat(self.words.fileno()).st_size > LOG_LIMIT_BYTES:
            raise self.fault("log_flood", f"it printed more than {LOG_LIMIT_BYTES >> 20} MiB")

    def last_words(self) -> str:
        lines = tail_of(self.words).strip().splitlines()
        return f"; its last line was {clean(lines[-1])!r}" if lines else ""


def nonce() -> int:
    """A number that a frame of a batch must carry; not known before the batch is asked for."""
    return secrets.randbits(63) | 1


def clean(text: str) -> str:
    """Somebody else's words as one bounded line without control characters."""
    return "".join(c if c.isprintable() else " " for c in text)[:SAID_LIMIT].strip()


def tail_of(words: BinaryIO) -> str:
    """The end of a log, which may be as long as its writer makes it: a file of holes has terabytes. It was opened before any line
    of the writer's was loaded: what bears its name by now may be another file, or a pipe, or nothing."""
    start = max(0, os.fstat(words.fileno()).st_size - TAIL_BYTES)
    return os.pread(words.fileno(), TAIL_BYTES, start).replace(b"\0", b"").decode("utf-8", "replace")
