"""Batches by the referee's clock: on the CPU, and on a card through the host; the side stands still outside of them."""

from __future__ import annotations

import time
from typing import Any

from hotkernel.harness.batches import BATCH_GRACE_S, RESTLESS, Checks, Stamped, Unreadable
from hotkernel.harness.links import OracleLink, WorkerLink, nonce
from hotkernel.machine import tree
from hotkernel_contract import protocol

READ_S = 10.0  # reading the outputs of a batch may take so long: some gigabytes
CORES_PART, CORES_US = 0.01, 500.0  # by which a side's time on cores may exceed what they can give: two clocks
SHARED = "the cores were shared with something else"
SHARED_US, SHARED_PART = 200.0, 0.05  # a thread that is ready and waits so long for a core spoils a batch


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
        return Stamped(span_us, None, time.monotonic() - self.began, void, ahead_us=worker.ahead_us)

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
