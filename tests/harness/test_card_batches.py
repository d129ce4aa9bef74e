"""A batch on a card, by a script of what its oracle and workers say: the gate, void batches, faults."""

from __future__ import annotations

import time
from typing import Any

import pytest

from hotkernel.harness.batches import FEW_RESTLESS, RESTLESS, STOOD_US, CannotQueue, Checks, Unreadable
from hotkernel.harness.card_batches import (
    CANARY,
    GATE_LONGER,
    GATE_MARGIN,
    LATE,
    LATE_LIMIT,
    MAX_GATE_US,
    MIN_GATE_US,
    NEW_MEMORY,
    CardBatches,
)
from hotkernel.harness.links import SideFault
from hotkernel.schema.verdict import Fault, Side, VerdictKind
from hotkernel_contract import protocol


class ScriptedOracle:
    """Answers as the card's oracle does; what it was asked is kept."""

    def __init__(self, **collected: Any) -> None:
        self.collected = {"span_us": 500.0, "check_us": 3.0, "fill_us": 20.0, "late": False, "queued_s": 0.002, **collected}
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.fault: list[str] | None = None

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        self.asked.append((op, arguments))
        tally = {"outputs": 4, "worst_bad_share": 0.0, "max_abs": 0.0, "max_rel": 0.0, "rms_ulps": 0.2}
        linked = {} if arguments.get("following") else self.collected
        return {"collect": self.collected, "link": linked, "judge": {"fault": self.fault, "tally": tally},
                "fill_alone": {"span_us": 21.0, "fill_us": 20.0}}.get(op, {})

    def tell(self, op: str, **arguments: Any) -> None:
        self.told = op, arguments

    def answer(self, op: str) -> dict[str, Any]:
        assert op == self.told[0]
        return self.ask(op, **self.told[1])

    def gates(self) -> list[float]:
        return [arguments["gate_us"] for op, arguments in self.asked if op == "arm"]


class ScriptedWorker:
    """A worker that is always armed in time."""

    side, name, pid, standing = Side.CANDIDATE, "candidate-1", 1, [1]

    def __init__(self) -> None:
        self.new: list[int] = []
        self.sent: list[int] = []  # kinds of frames
        self.ran: list[float] = []  # while it had to stand still, ahead of each batch
        self.segments = {7: (2 << 20, "ab" * 64)}

    def receive_outputs(self, calls: int, nonce: int, deadline: float) -> tuple[list[Any], list[int]]:
        return [], self.new

    def stand_still(self) -> bool:
        return True

    def send(self, data: bytes) -> None:
        self.sent.append(protocol.unpack(data[:protocol.FRAME_BYTES]).kind)

    go_on = check_log = lambda self: None

    def ran_us(self) -> float:
        return self.ran.pop(0) if self.ran else 0.0

    def wrong(self, rule: str, reason: str, kind: VerdictKind) -> SideFault:
        return self.fault(rule, reason, kind)

    def fault(self, rule: str, reason: str, kind: VerdictKind = VerdictKind.INVALID) -> SideFault:
        return SideFault(Fault(kind, rule, reason, self.side))


def card(oracle: ScriptedOracle, *, is_open: bool = False) -> CardBatches:
    batches = CardBatches(oracle, Checks(), time.monotonic(), is_open=is_open)  # type: ignore[arg-type]
    for calls in (2, 10):
        batches.fill_alone(list(range(calls)), list(range(calls)))
    return batches


def run(batches: CardBatches, worker: ScriptedWorker | None = None) -> Any:
    return batches.run(worker or ScriptedWorker(), [0, 1, 2, 3], [3, 2, 1, 0], 200.0)  # type: ignore[arg-type]


@pytest.mark.parametrize("queued_s", [0.0, 0.0005, 0.01, 0.2, 5.0])
def test_the_gate_is_as_long_as_queueing_took_with_room_to_spare_and_bounded(queued_s):
    batches = card(ScriptedOracle(queued_s=queued_s))
    batches.learn_gate(ScriptedWorker(), [0, 1], [0, 1], 100.0)  # type: ignore[arg-type]

    assert batches.gate_us(2) == pytest.approx(min(MAX_GATE_US, GATE_MARGIN * queued_s * 1e6 + MIN_GATE_US))


def test_the_gate_is_learnt_from_open_batches_and_a_hiccup_is_forgotten_slowly():
    oracle = ScriptedOracle(queued_s=0.01)
    batches = card(oracle)
    gates = []
    for queued_s in (0.01, 0.001, 0.001, 0.0):
        oracle.collected["queued_s"] = queued_s
        batches.learn_gate(ScriptedWorker(), [0], [0], 100.0)  # type: ignore[arg-type]
        gates.append((batches.gate_us(1) - MIN_GATE_US) / GATE_MARGIN)

    assert set(oracle.gates()) == {0.0}
    assert gates == pytest.approx([10_000.0, 8_000.0, 6_400.0, 5_120.0])


def test_fewer_calls_have_a_shorter_gate_once_their_own_queueing_was_seen():
    oracle = ScriptedOracle(queued_s=0.010)
    batches = card(oracle)
    batches.learn_gate(ScriptedWorker(), [0] * 12, [0] * 12, 100.0)  # type: ignore[arg-type]
    before = batches.gate_us(4)
    oracle.collected["queued_s"] = 0.002
    run(batches)

    assert before == batches.gate_us(12) == pytest.approx(GATE_MARGIN * 10_000 + MIN_GATE_US)
    assert batches.gate_us(4) == pytest.approx(GATE_MARGIN * 2_000 + MIN_GATE_US)


def test_a_batch_in_time_is_valid_and_keeps_all_stamps():
    stamped = run(card(ScriptedOracle()))

    assert (stamped.span_us, stamped.check_us, stamped.fill_us, stamped.void) == (500.0, 3.0, 20.0, None)


def test_a_late_batch_is_void_and_lengthens_the_gate_until_it_is_taken_for_one_that_synchronises():
    oracle = ScriptedOracle(late=True)
    batches = card(oracle)
    voids = [run(batches).void for _ in range(LATE_LIMIT - 1)]
    with pytest.raises(CannotQueue) as raised:
        run(batches)

    assert (voids, raised.value.calls) == ([LATE] * (LATE_LIMIT - 1), 4)
    learnt = GATE_MARGIN * 2_000 + MIN_GATE_US
    assert oracle.gates() == pytest.approx([MIN_GATE_US] + [learnt * GATE_LONGER**times for times in range(1, LATE_LIMIT)])


def test_lateness_now_and_then_is_no_synchronisation():
    oracle = ScriptedOracle()
    batches = card(oracle)
    for number in range(6 * LATE_LIMIT):
        oracle.collected["late"] = number % 2 == 0
        run(batches)

    assert batches.gate_us(4) <= MAX_GATE_US


def test_many_calls_that_are_always_late_cannot_be_queued_though_one_call_is_in_time_between_them():
    oracle = ScriptedOracle()
    batches = card(oracle)

    def one_and_nine() -> None:
        for calls in (1, 9):
            oracle.collected["late"] = calls > 1
            batches.run(ScriptedWorker(), list(range(calls)), list(range(calls)), 200.0)  # type: ignore[arg-type]

    for _ in range(LATE_LIMIT - 1):
        one_and_nine()
    with pytest.raises(CannotQueue) as raised:
        one_and_nine()

    assert raised.value.calls == 9


def test_as_many_calls_by_what_the_plan_draws_clear_a_late_batch():
    oracle = ScriptedOracle()
    batches = card(oracle)
    for number, calls in enumerate((160, 140, 170, 150) * LATE_LIMIT):
        oracle.collected["late"] = number % 2 == 0
        batches.run(ScriptedWorker(), list(range(calls)), list(range(calls)), 200.0)  # type: ignore[arg-type]

    assert batches.late == []


def test_latency_batches_have_no_gate_and_are_never_late():
    oracle = ScriptedOracle(late=True)
    stamped = run(card(oracle, is_open=True))

    assert (stamped.void, oracle.gates()) == (None, [0.0])


def test_memory_that_is_new_in_a_batch_voids_it_and_is_opened_once():
    oracle, worker = ScriptedOracle(), ScriptedWorker()
    batches = card(oracle)
    worker.new = [7]
    assert run(batches, worker).void == NEW_MEMORY
    worker.new = []

    assert run(batches, worker).void is None
    assert [arguments["number"] for op, arguments in oracle.asked if op == "segment"] == [7]


def test_memory_that_no_other_process_can_be_given_has_the_outputs_copied_on_both_sides():
    oracle, worker = ScriptedOracle(), ScriptedWorker()
    worker.new, worker.segments = [7], {7: (2 << 20, bytes(64).hex())}

    with pytest.raises(Unreadable, match="gives to no other process"):
        run(card(oracle), worker)
    assert not any(op == "segment" for op, _ in oracle.asked)


@pytest.mark.parametrize(("fill_us", "void"), [(20.0, None), (24.0, None), (30.0, CANARY), (200.0, CANARY)])
def test_a_fill_that_takes_longer_than_alone_voids_the_batch(fill_us, void):
    assert run(card(ScriptedOracle(fill_us=fill_us))).void == void


def test_a_side_that_ran_while_it_had_to_stand_voids_a_few_batches_and_is_at_fault_when_they_are_more():
    batches, worker = card(ScriptedOracle()), ScriptedWorker()
    worker.ran = [STOOD_US, 400.0, 0.0] + [STOOD_US + 1.0] * FEW_RESTLESS
    voids = [run(batches, worker).void for _ in range(FEW_RESTLESS + 2)]
    with pytest.raises(SideFault) as caught:
        run(batches, worker)

    assert voids == [None, RESTLESS, None] + [RESTLESS] * (FEW_RESTLESS - 1)
    assert (caught.value.fault.rule, caught.value.fault.kind) == ("ran_out_of_turn", VerdictKind.INVALID)
    assert "4 of 6 times" in caught.value.fault.reason


def test_in_a_long_verify_one_batch_in_a_hundred_may_be_restless():
    batches, worker = card(ScriptedOracle()), ScriptedWorker()
    worker.ran = ([1000.0] + [0.0] * 99) * 12
    voids = [run(batches, worker).void for _ in range(1200)]

    assert voids.count(RESTLESS) == 12


def test_one_process_of_a_side_does_not_start_counting_anew():
    batches = card(ScriptedOracle())
    workers = [ScriptedWorker() for _ in range(FEW_RESTLESS + 1)]
    for worker in workers:
        worker.ran = [1000.0]
    assert {run(batches, worker).void for worker in workers[:-1]} == {RESTLESS}
    with pytest.raises(SideFault) as caught:
        run(batches, workers[-1])

    assert caught.value.fault.rule == "ran_out_of_turn"


@pytest.mark.parametrize(("rule", "kind"), [("wrong_shape", VerdictKind.INCORRECT), ("outputs_overlap", VerdictKind.INCORRECT),
                                            ("out_of_protocol", VerdictKind.INVALID)])
def test_what_the_oracle_finds_before_it_reads_is_the_sides_fault(rule, kind):
    with pytest.raises(SideFault) as caught:
        run(card(ScriptedOracle(fault=[rule, "why"])))

    assert (caught.value.fault.rule, caught.value.fault.kind) == (rule, kind)


def test_what_the_oracle_finds_in_the_outputs_is_the_sides_fault():
    oracle = ScriptedOracle()
    oracle.fault = ["wrong_values", "why"]
    with pytest.raises(SideFault) as caught:
        run(card(oracle))

    assert (caught.value.fault.rule, caught.value.fault.kind) == ("wrong_values", VerdictKind.INCORRECT)


def test_a_wrong_output_is_the_baselines_where_that_is_as_wrong_on_the_same_input():
    worker, answer = ScriptedWorker(), {"fault": ["wrong_values", "1 of 4 outputs are wrong"], "tally": {}}

    with pytest.raises(SideFault) as alike:
        Checks().take(worker, {**answer, "is_the_targets": True})  # type: ignore[arg-type]
    assert alike.value.fault.side is Side.BASELINE
    assert "the candidate and the baseline alike" in alike.value.fault.reason


# Chains ---------------------------------------------------------------------------------------------------------------


def test_in_a_chain_a_calls_input_is_asked_for_when_the_call_before_was_queued_and_all_is_judged_at_the_end():
    oracle, worker = ScriptedOracle(), ScriptedWorker()
    stamped = card(oracle).chain(worker, [5, 6, 7], [2, 0, 1], 30.0)  # type: ignore[arg-type]

    asked = [(op, arguments) for op, arguments in oracle.asked if op in ("arm_chain", "link", "judge")]
    assert [op for op, _ in asked] == ["arm_chain", "link", "link", "link", "judge"]
    assert (asked[0][1]["pick"], asked[0][1]["slot"]) == (5, 2)
    assert [arguments["following"] for _, arguments in asked[1:4]] == [(6, 0), (7, 1), None]
    assert asked[4][1]["picks"] == [5, 6, 7]
    assert worker.sent == [protocol.LINK, protocol.LINK, protocol.RUN, protocol.RELEASE]
    assert (stamped.span_us, stamped.void) == (500.0, None)


@pytest.mark.parametrize(("late", "new", "ran", "void"), [
    (True, [], [], LATE), (False, [7], [], NEW_MEMORY), (False, [], [2 * STOOD_US], RESTLESS)])
def test_a_chain_is_void_for_the_reasons_that_a_batch_is(late, new, ran, void):
    worker = ScriptedWorker()
    worker.new, worker.ran = new, ran

    assert card(ScriptedOracle(late=late)).chain(worker, [0, 1], [0, 1], 30.0).void == void  # type: ignore[arg-type]
