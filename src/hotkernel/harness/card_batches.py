"""Batches on a card: queued behind the oracle's gate, stamped by its events."""

from __future__ import annotations

import time
from typing import Any

from hotkernel.harness.batches import BATCH_GRACE_S, RESTLESS, CannotQueue, Checks, Stamped, Unreadable
from hotkernel.harness.links import OracleLink, WorkerLink, nonce
from hotkernel.harness.phases import Laps
from hotkernel.schema.verdict import VerdictKind
from hotkernel_contract import protocol

LATE_LIMIT = 3  # so often may a gate open too early before the calls are taken for some that cannot be queued
AS_MANY = 0.8  # of the calls of a late batch: as many by what the plan draws, so that one in time says that there was no cause
LATE = "the gate opened before the calls were queued"
NEW_MEMORY = "an output lies in memory that was allocated during the batch"
CANARY = "the card was shared with something else: the fill took longer than it does alone"
CANARY_PART, CANARY_US = 0.03, 4.0
MIN_GATE_US = 500.0
MAX_GATE_US = 400_000.0
CHAIN_GATE_US = 5_000.0  # each call of a chain goes from oracle to referee to worker and back while the gate holds
GATE_MARGIN = 1.4  # times what queueing took
GATE_LONGER = 4.0  # times, after a late batch: the last of LATE_LIMIT gates outlasts a busy host, but no call that synchronises
FORGETS = 0.8  # of the longest queueing seen, what is left after another batch: a hiccup must not lengthen all gates


class CardBatches:
    """CUDA: everything is queued behind the oracle's gate; both stamps are the oracle's own timed events."""

    def __init__(self, oracle: OracleLink, checks: Checks, began: float, *, is_open: bool) -> None:
        self.oracle, self.checks, self.began = oracle, checks, began
        self.is_open = is_open  # latency batches: no gate
        self.queued_us: dict[int, float] = {}  # by calls: how long it took lately to queue a batch from head to tail
        self.late: list[int] = []  # calls of the batches that were late, since as many were queued in time
        self.chain_queued_us = 0.0  # how long it took lately to queue a chain
        self.fill_times: dict[int, float] = {}  # the longest seen alone, by slots

    def ready(self, worker: WorkerLink, handle: bytes) -> None:
        self._asked(worker, self.oracle.ask("worker", name=worker.name, done=handle.hex()))
        worker.stand_still()

    def forget(self, worker: WorkerLink) -> None:
        self.oracle.ask("forget", name=worker.name)

    def run(self, worker: WorkerLink, picks: list[int], order: list[int], expected_us: float) -> Stamped:
        stamped = self.attempt(worker, picks, order, expected_us, 0.0 if self.is_open else self.gate_us(len(picks)))
        if stamped.void == LATE:
            self.late.append(len(picks))
            if len(self.late) >= LATE_LIMIT:
                raise CannotQueue(min(self.late))
        elif stamped.void is None and len(picks) >= AS_MANY * max(self.late, default=0):
            self.late.clear()
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
        return min(MAX_GATE_US, (GATE_MARGIN * known + MIN_GATE_US) * GATE_LONGER**len(self.late))

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
        outputs, new = self._receive(worker, len(order), number, deadline, laps)
        answer = self._asked(worker, self.oracle.ask("collect", name=worker.name, outputs=outputs))
        laps.lap("run")
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

    def chain(self, worker: WorkerLink, picks: list[int], order: list[int], expected_us: float) -> Stamped:
        """Calls one behind the other: what a call is called on is made, on the card, when the call before has ended and what it
        returned was read. Nothing can be worked out for two of them. Timed from before the first input to the last end."""
        gate_us = min(MAX_GATE_US, max(CHAIN_GATE_US, GATE_MARGIN * self.chain_queued_us) * GATE_LONGER**len(self.late))
        deadline = time.monotonic() + BATCH_GRACE_S + (gate_us + 50 * expected_us) / 1e6
        laps = Laps(self.checks.seconds)
        stood, is_new, answer = self.checks.stood(worker), False, {}
        worker.go_on()
        self.oracle.ask("arm_chain", pick=picks[0], slot=order[0], gate_us=gate_us)
        for slot, following in zip(order, [*zip(picks[1:], order[1:], strict=True), None], strict=True):
            number = nonce()
            worker.send(protocol.pack_numbers(protocol.RUN if following is None else protocol.LINK, [slot], number))
            outputs, new = self._receive(worker, 1, number, deadline, laps)
            answer = self._asked(worker, self.oracle.ask("link", name=worker.name, outputs=outputs, following=following))
            is_new = is_new or bool(new)
        self.oracle.tell("judge", side=worker.side, picks=picks, outputs=[])
        worker.send(protocol.pack(protocol.RELEASE, 0, number))
        stood = worker.stand_still() and stood
        self.checks.take(worker, self.oracle.answer("judge"))
        worker.check_log()
        laps.lap("chain")
        self.chain_queued_us = max(1e6 * float(answer["queued_s"]), FORGETS * self.chain_queued_us)
        void = NEW_MEMORY if is_new else LATE if answer["late"] else None if stood else RESTLESS
        return Stamped(answer["span_us"], None, time.monotonic() - self.began, void)

    def _receive(self, worker: WorkerLink, calls: int, number: int, deadline: float,
                 laps: Laps) -> tuple[list[protocol.OutputAt], list[int]]:
        """Where a batch's outputs lie, in memory that the oracle has opened by then, and what of it was new."""
        outputs, new = worker.receive_outputs(calls * self.checks.returned, number, deadline)
        laps.lap("queue")
        for segment in new:
            size, handle = worker.segments[segment]
            if not any(bytes.fromhex(handle)):
                raise Unreadable("a side's outputs lie in memory that CUDA gives to no other process")
            self._asked(worker, self.oracle.ask("segment", name=worker.name, number=segment, size=size, handle=handle))
        return outputs, new

    def _asked(self, worker: WorkerLink, answer: dict[str, Any]) -> dict[str, Any]:
        """The oracle's answer; raises SideFault for what it found wrong before it read a number."""
        if answer.get("fault"):
            rule, reason = answer["fault"]
            raise worker.wrong(rule, reason, VerdictKind.INVALID if rule == "out_of_protocol" else VerdictKind.INCORRECT)
        return answer

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
