"""Runs one batch: oracle and worker in turn, never at once, and the stamps that neither the worker nor its words decide."""

from __future__ import annotations

import collections
import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from hotkernel.harness.links import OracleLink, SideFault, WorkerLink, nonce
from hotkernel.harness.phases import Laps
from hotkernel.machine import tree
from hotkernel.schema.verdict import Check, Fault, Side, VerdictKind
from hotkernel_contract import protocol

BATCH_GRACE_S = 30.0  # beyond what the plan expects; a worker that needs more is stuck
READ_S = 10.0  # reading the outputs of a batch may take so long: some gigabytes
LATE_LIMIT = 3  # so often may a gate open too early before the call is taken for one that synchronises
LATE = "the gate opened before the calls were queued"
NEW_MEMORY = "an output lies in memory that was allocated during the batch"
CANARY = "the card was shared with something else: the fill took longer than it does alone"
CANARY_PART, CANARY_US = 0.03, 4.0
RESTLESS = "a side did not stand still when it was told to"
STOOD_US = 50.0  # the last of its stopping may be booked after it was seen to stand
# Seen on a virtual machine: one batch in some 7,000 of honest sides was booked late by more than that. So a few are void. A look
# and a confirmation have three pairs each at least: a side that disturbs the other in one value of each is caught.
FEW_RESTLESS, RESTLESS_ONE_IN = 3, 100
CORES_PART, CORES_US = 0.01, 500.0  # by which a side's time on cores may exceed what they can give: two clocks
SHARED = "the cores were shared with something else"
SHARED_US, SHARED_PART = 200.0, 0.05  # a thread that is ready and waits so long for a core spoils a batch
MIN_GATE_US = 500.0
MAX_GATE_US = 400_000.0
GATE_MARGIN = 1.4  # times what queueing took
GATE_LONGER = 4.0  # times, after a late batch: the last of LATE_LIMIT gates outlasts a busy host, but no call that synchronises
FORGETS = 0.8  # of the longest queueing seen, what is left after another batch: a hiccup must not lengthen all gates


class CannotQueue(Exception):
    """A side's calls cannot be queued behind the gate: it synchronises inside."""


class Unreadable(Exception):
    """The outputs cannot be read where they lie; they must be copied out."""


@dataclass
class Stamped:
    """One batch as it went: the span, the check's own time where the device took it, and why it is void if it is."""

    span_us: float
    check_us: float | None
    at_s: float
    void: str | None = None
    fill_us: float | None = None


@dataclass
class Checks:
    """What the oracle says of each side's outputs so far, and where the time of all batches went."""

    tallies: dict[str, dict[str, Any]] = field(default_factory=dict)
    returned: int = 1  # tensors that a call returns
    stands: collections.Counter[Side] = field(default_factory=collections.Counter)  # how often a side had to stand still
    restless: collections.Counter[Side] = field(default_factory=collections.Counter)  # and ran all the same
    seconds: dict[str, float] = field(default_factory=dict)

    def take(self, worker: WorkerLink, answer: dict[str, Any]) -> None:
        """Keep the tally; raise the side's fault when there is one."""
        self.tallies[worker.side] = answer["tally"]
        if answer["fault"]:
            rule, reason = answer["fault"]
            if answer.get("is_the_targets") and worker.side is not Side.BASELINE:
                reason = f"the {worker.side} and the baseline alike: {reason}"
                raise SideFault(Fault(VerdictKind.INCORRECT, rule, reason, Side.BASELINE))
            raise worker.wrong(rule, reason, VerdictKind.INCORRECT if rule != "out_of_protocol" else VerdictKind.INVALID)

    def stood(self, worker: WorkerLink) -> bool:
        """Whether a side stands, and nothing of it has run since it does; raise its fault when it ran too often.

        A process can have itself continued. The batch that it did that for is void, the other side's before it, too.
        """
        side, ran_us = worker.side, worker.ran_us()
        self.stands[side] += 1
        self.restless[side] += ran_us > STOOD_US
        if self.restless[side] > FEW_RESTLESS + self.stands[side] // RESTLESS_ONE_IN:
            raise worker.fault("ran_out_of_turn", f"it ran while it had to stand still, {self.restless[side]} of "
                               f"{self.stands[side]} times")
        return worker.standing is not None and ran_us <= STOOD_US

    def as_checks(self, broken: dict[str, tuple[str, str]]) -> tuple[Check, ...]:
        """One Check a side; `broken` is the rule and reason of a side that failed."""
        found = []
        for side, tally in self.tallies.items():
            rule, detail = broken.get(side, (None, ""))
            found.append(Check(
                side=side, outputs=tally["outputs"], ok=rule is None,  # type: ignore[arg-type]
                within_share=1.0 - tally["worst_bad_share"] if tally["outputs"] else None,
                max_abs_error=tally["max_abs"], max_rel_error=tally["max_rel"], rms_error_ulps=tally["rms_ulps"],
                rounds=dict(tally.get("rounds", {})), rule=rule, detail=detail))
        return tuple(found)


class Batches(Protocol):
    """How one batch is run on a device."""

    def run(self, worker: WorkerLink, picks: list[int], order: list[int], expected_us: float) -> Stamped:
        """One batch of `worker` on the pool's `picks` in the slots of `order`; raises SideFault."""

    def ready(self, worker: WorkerLink, handle: bytes) -> None:
        """A worker has mapped its slots."""

    def forget(self, worker: WorkerLink) -> None:
        """A worker is gone."""


class HostBatches:
    """The CPU: the referee's clock, and a worker that stands still whenever it is not its turn.

    While it stands, the oracle writes secrets into its slots and reads its outputs: inputs do not exist for the running
    worker before stamp0, and what is not in an output at stamp1 never gets there. Ahead of that it has one call for nothing.
    """

    def __init__(self, oracle: OracleLink, checks: Checks, began: float, cores: int) -> None:
        self.oracle, self.checks, self.began = oracle, checks, began
        self.was_read = False  # some side's outputs: reading is allowed here
        self.cores = cores  # that each side has; 0: all there are

    def ready(self, worker: WorkerLink, handle: bytes) -> None:  # noqa: ARG002 - the card needs it
        worker.stand_still()

    def forget(self, worker: WorkerLink) -> None:
        """Nothing is open for it."""

    def run(self, worker: WorkerLink, picks: list[int], order: list[int], expected_us: float) -> Stamped:
        number = nonce()
        request = protocol.pack_numbers(protocol.RUN, order, number)
        deadline = time.monotonic() + BATCH_GRACE_S + 50 * expected_us / 1e6
        limber = self.checks.stood(worker) and worker.limber(order[0], self.checks.returned, expected_us / len(order), deadline)
        self.oracle.ask("fill", picks=picks, order=order)
        mine = worker.standing or [worker.pid]
        waited_us, used_us = tree.waited_us(worker.pid), tree.used_us(mine)
        stood = self.checks.stood(worker) and limber  # last of all: what is done between this and the clock is in no interval
        started = time.perf_counter_ns()
        worker.go_on()
        worker.send(request)
        count = len(order) * self.checks.returned
        done = [worker.expect(protocol.DONE, deadline, number) for _ in range(protocol.frames_of(count))]
        by_then_us, ended = tree.used_us(mine), time.perf_counter_ns()  # so: reading thousands of processes takes milliseconds
        wall_us, used_us, still = (ended - started) / 1e3, by_then_us - used_us, worker.stand_still()
        late_us = worker.late_us(mine, by_then_us, (time.perf_counter_ns() - ended) / 1e3)
        waited_us = tree.waited_us(worker.pid) - waited_us
        if done[0].number != count:
            raise worker.fault("out_of_protocol", "it answered another number of outputs than was asked for")
        if begun := set(worker.standing or ()) - set(mine):
            used_us, wall_us = used_us + tree.used_us(begun), (time.perf_counter_ns() - started) / 1e3
        self._check_cores(worker, used_us, wall_us)
        addresses = protocol.unpack_numbers(done)
        read = self._read(worker, addresses, picks, order)
        stood = self.checks.stood(worker) and stood
        worker.go_on()
        self._judge(worker, worker.receive_outputs(count, number, deadline)[0], addresses, picks, read, number)
        still = worker.stand_still() and still
        worker.check_log()
        span_us = (ended - started) / 1e3 + late_us
        if self.cores:  # threads that waited for each other, on cores that were theirs all the time, shared with nobody
            waited_us = min(waited_us, max(0.0, self.cores * wall_us - used_us))
        void = SHARED if waited_us > SHARED_US + SHARED_PART * span_us else None if stood and still else RESTLESS
        return Stamped(span_us, None, time.monotonic() - self.began, void)

    def _read(self, worker: WorkerLink, addresses: list[int], picks: list[int], order: list[int]) -> dict[str, Any]:
        """Have the outputs copied out; a side may have pages that come when somebody serves them, and it stands still."""
        try:
            return self.oracle.ask("read", within_s=READ_S, pid=worker.pid, addresses=addresses, picks=picks, order=order)
        except TimeoutError:
            raise worker.fault("timeout", "its outputs cannot be read in time") from None

    def _judge(self, worker: WorkerLink, outputs: list[protocol.OutputAt], addresses: list[int], picks: list[int],
               read: dict[str, Any], number: int) -> None:
        """Let the side go; raise SideFault for what is wrong with its outputs, which were read at these addresses."""
        worker.send(protocol.pack(protocol.RELEASE, 0, number))
        if "unreadable" in read:
            self._kind_or_raise(worker, outputs, picks, read)
        self.was_read = True
        self.checks.take(worker, self.oracle.ask("judge", side=worker.side, picks=picks, outputs=outputs))
        if any(at.segment == protocol.ADDRESS and at.offset != read_at for at, read_at in zip(outputs, addresses, strict=True)):
            raise worker.fault("out_of_protocol", "it said of an output that it lies elsewhere than where it was read")

    def _check_cores(self, worker: WorkerLink, used_us: float, wall_us: float) -> None:
        """Raise SideFault when a side ran on more cores than both sides were given: what is over is added up, batch by batch,
        and no idleness in one pays for another's. Both times are read together, so that what is over cannot be."""
        worker.over_us += max(0.0, used_us - self.cores * wall_us * (1 + CORES_PART))
        if self.cores and worker.over_us > CORES_US:
            raise worker.fault("more_cores", f"it ran on more than the {self.cores} cores that each side was given")

    def _kind_or_raise(self, worker: WorkerLink, outputs: list[protocol.OutputAt], picks: list[int],
                       read: dict[str, Any]) -> None:
        """An address that cannot be read is a wrong output's, or the machine forbids reading: only then copies help."""
        if read["errno"] not in (1, 38):  # EPERM, ENOSYS
            self.checks.take(worker, self.oracle.ask("judge", side=worker.side, picks=picks, outputs=outputs, are_read=False))
            raise worker.wrong("out_of_protocol", "an output lies where no memory is")
        if self.was_read:  # so this side alone forbids it, and both would be measured with copies
            raise worker.fault("out_of_protocol", "it forbids that its outputs are read")
        raise Unreadable(read["unreadable"])


class CardBatches:
    """CUDA: everything is queued behind the oracle's gate; both stamps are the oracle's own timed events."""

    def __init__(self, oracle: OracleLink, checks: Checks, began: float, *, is_open: bool) -> None:
        self.oracle, self.checks, self.began = oracle, checks, began
        self.is_open = is_open  # latency batches: no gate
        self.queued_us: dict[int, float] = {}  # by calls: how long it took lately to queue a batch from head to tail
        self.late = 0  # batches in a row
        self.fill_times: dict[int, float] = {}  # the longest seen alone, by slots

    def ready(self, worker: WorkerLink, handle: bytes) -> None:
        self._named(worker, self.oracle.ask("worker", name=worker.name, done=handle.hex()))
        worker.stand_still()

    def forget(self, worker: WorkerLink) -> None:
        self.oracle.ask("forget", name=worker.name)

    def run(self, worker: WorkerLink, picks: list[int], order: list[int], expected_us: float) -> Stamped:
        stamped = self.attempt(worker, picks, order, expected_us, 0.0 if self.is_open else self.gate_us(len(picks)))
        if stamped.void == LATE:
            self.late += 1
            if self.late >= LATE_LIMIT:
                raise CannotQueue
        elif stamped.void is None:
            self.late = 0
        return stamped

    def learn_gate(self, worker: WorkerLink, picks: list[int], order: list[int], expected_us: float) -> None:
        """An open batch, to see the memory that outputs lie in; the first worker's tells how long queueing takes too."""
        for _ in range(LATE_LIMIT):
            is_known = bool(self.queued_us)
            stamped = self.attempt(worker, picks, order, expected_us, 0.0)
            if stamped.void is None or (is_known and stamped.void == NEW_MEMORY):
                break

    def gate_us(self, calls: int) -> float:
        """How long the gate must hold for so many calls, by the nearest count seen that is not smaller."""
        known = min((us for n, us in self.queued_us.items() if n >= calls), default=max(self.queued_us.values(), default=0.0))
        return min(MAX_GATE_US, (GATE_MARGIN * known + MIN_GATE_US) * GATE_LONGER**self.late)

    def attempt(self, worker: WorkerLink, picks: list[int], order: list[int], expected_us: float, gate_us: float) -> Stamped:
        """One batch with this gate, checked; void when the gate was too short or memory was new."""
        number = nonce()
        request = protocol.pack_numbers(protocol.RUN, order, number)
        deadline = time.monotonic() + BATCH_GRACE_S + (gate_us + 50 * expected_us) / 1e6
        laps = Laps(self.checks.seconds)
        stood = self.checks.stood(worker)
        worker.go_on()  # it waits for its request; awake already, it takes less of the gate's time
        self.oracle.ask("arm", picks=picks, order=order, gate_us=gate_us)
        worker.send(request)
        laps.lap("arm")
        outputs, new = worker.receive_outputs(len(order) * self.checks.returned, number, deadline)
        laps.lap("queue")
        for segment in new:
            size, handle = worker.segments[segment]
            self._named(worker, self.oracle.ask("segment", name=worker.name, number=segment, size=size, handle=handle))
        answer = self.oracle.ask("collect", name=worker.name, outputs=outputs)
        laps.lap("run")
        if answer.get("fault"):
            rule, reason = answer["fault"]
            raise worker.wrong(rule, reason, VerdictKind.INVALID if rule == "out_of_protocol" else VerdictKind.INCORRECT)
        self.oracle.tell("judge", side=worker.side, picks=picks, outputs=outputs)  # copies: the worker may go
        worker.send(protocol.pack(protocol.RELEASE, 0, number))
        stood = worker.stand_still() and stood  # a side that is not at work must not queue work beside the other's
        laps.lap("still")
        self.checks.take(worker, self.oracle.answer("judge"))
        if not new:
            queued_us = 1e6 * float(answer["queued_s"])
            self.queued_us[len(picks)] = max(queued_us, FORGETS * self.queued_us.get(len(picks), 0.0))
        worker.check_log()
        laps.lap("check")
        void = NEW_MEMORY if new else None if stood else RESTLESS
        if gate_us and not void:  # with no gate the fill waits for the host, and tells nothing of the card
            void = LATE if answer["late"] else self.canary(len(picks), answer["fill_us"])
        return Stamped(answer["span_us"], answer["check_us"], time.monotonic() - self.began, void, answer["fill_us"])

    def _named(self, worker: WorkerLink, answer: dict[str, Any]) -> None:
        """Raise SideFault when what a worker named cannot be opened."""
        if answer.get("fault"):
            raise worker.wrong(*answer["fault"])

    def canary(self, calls: int, fill_us: float) -> str | None:
        """The fill is trusted work whose time is known: one that takes longer shares the card with something."""
        below = max((n for n in self.fill_times if n <= calls), default=min(self.fill_times))
        above = min((n for n in self.fill_times if n >= calls), default=max(self.fill_times))
        share = (calls - below) / (above - below) if above != below else 0.0
        known = self.fill_times[below] + share * (self.fill_times[above] - self.fill_times[below])
        return CANARY if fill_us > known * (1 + CANARY_PART) + CANARY_US else None

    def fill_alone(self, picks: list[int], order: list[int]) -> float:
        """F: the same head with no call behind it, in us."""
        gate_us = MIN_GATE_US + 30.0 * len(picks)  # a fill queues one copy a slot and input
        answer = self.oracle.ask("fill_alone", picks=picks, order=order, gate_us=gate_us)
        self.fill_times[len(picks)] = max(self.fill_times.get(len(picks), 0.0), float(answer["fill_us"]))
        return float(answer["span_us"])
