"""How much is measured, for calls of two microseconds to half a second and for memory that holds hardly one."""

from __future__ import annotations

import random

import pytest

from hotkernel.harness.plan import (
    BY_REFEREES_CLOCK,
    CPU_MAX_CALLS,
    FEW_CALLS,
    LINKS,
    LONG_PAIR_US,
    MAX_BATCH_US,
    MAX_CALLS,
    MEMORY_SHARE,
    MIN_WORK_US,
    VALUES_PER_PAIR,
    Wanted,
    are_few_enough,
    draw_calls,
    make_plan,
    top_calls,
)
from hotkernel.schema.verdict import Mode, Plan

ENTRY_BYTES, FREE_BYTES = 1 << 20, 100 << 30
TIMES_US = (2.0, 50.0, 1_000.0, 500_000.0)


def plan_of(mode: Mode, baseline_us: float, *, entry_bytes: int = ENTRY_BYTES, free_bytes: int = FREE_BYTES) -> Plan:
    return make_plan(mode, baseline_us, entry_bytes, free_bytes, Wanted())


@pytest.mark.parametrize(("mode", "baseline_us", "counts"), [
    (Mode.BATCHES, 2.0, (1, 240)),
    (Mode.BATCHES, 50.0, (1, 16)),
    (Mode.BATCHES, 1_000.0, (1, 9)),
    (Mode.BATCHES, 500_000.0, (1, 2)),
    (Mode.CPU, 2.0, (1, 20)),
    (Mode.CPU, 50.0, (1, 20)),
    (Mode.CPU, 1_000.0, (1, 7)),
    (Mode.CPU, 500_000.0, (1, 2)),
])
def test_the_counts_of_calls(mode, baseline_us, counts):
    plan = plan_of(mode, baseline_us)

    assert (plan.n1, plan.n2) == counts


@pytest.mark.parametrize(("baseline_us", "is_so"), [(4.0, False), (80.0, False), (100.0, True), (5_000.0, True)])
def test_few_calls_are_enough_where_one_is_long(baseline_us, is_so):
    fewer = make_plan(Mode.BATCHES, baseline_us, ENTRY_BYTES, FREE_BYTES, Wanted(), most=FEW_CALLS)

    assert are_few_enough(plan_of(Mode.BATCHES, baseline_us)) is is_so
    assert (fewer.n1, fewer.n2, fewer.slots, fewer.links) == (1, FEW_CALLS, FEW_CALLS, ())


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("baseline_us", TIMES_US)
def test_the_difference_is_enough_work_unless_a_limit_forbids(mode, baseline_us):
    plan = plan_of(mode, baseline_us)
    work_us = (plan.n2 - plan.n1) * baseline_us
    most = CPU_MAX_CALLS if mode in BY_REFEREES_CLOCK else MAX_CALLS

    assert work_us >= MIN_WORK_US[mode] or plan.n2 >= most * 0.9
    assert plan.n2 <= most
    assert plan.n2 * baseline_us <= 2 * MAX_BATCH_US or plan.n2 <= 4


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("baseline_us", TIMES_US)
def test_there_is_a_slot_for_every_call_of_the_longest_batch(mode, baseline_us):
    plan = plan_of(mode, baseline_us)

    assert plan.slots == top_calls(plan.n2) >= plan.n2


def test_a_pair_takes_all_its_values_where_that_is_quick_and_fewer_where_a_call_is_slow():
    quick, slow = plan_of(Mode.BATCHES, 50.0), plan_of(Mode.BATCHES, 500_000.0)

    assert quick.values_per_pair == VALUES_PER_PAIR
    assert quick.notes == ()
    assert slow.values_per_pair == 2
    assert "500 ms" in slow.notes[0]


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("baseline_us", [*TIMES_US, 20_000.0, 80_000.0])
def test_a_pair_is_no_longer_than_it_must_be(mode, baseline_us):
    plan = plan_of(mode, baseline_us)

    assert (plan.n1 + plan.n2) * baseline_us * plan.values_per_pair * 2 <= LONG_PAIR_US or plan.values_per_pair == 2
    assert plan.values_per_pair % 2 == 0  # both orders come equally often


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("fit", [1, 2, 3, 4, 6, 9])
def test_small_memory_makes_small_batches_and_says_so(mode, fit):
    plan = plan_of(mode, 50.0, entry_bytes=1 << 30, free_bytes=int((2 * fit << 30) / MEMORY_SHARE))

    assert 1 <= plan.n1 < plan.n2 <= max(fit, 2)
    assert f"memory holds {fit} calls" in plan.notes[0]


def test_memory_that_holds_no_call_at_all_still_gives_a_plan():
    plan = plan_of(Mode.BATCHES, 50.0, entry_bytes=1 << 40, free_bytes=1 << 30)

    assert (plan.n1, plan.n2) == (1, 2)


def test_ample_memory_changes_nothing():
    assert plan_of(Mode.BATCHES, 50.0) == plan_of(Mode.BATCHES, 50.0, free_bytes=FREE_BYTES * 10)


@pytest.mark.parametrize("baseline_us", [0.0, 1e-9, 0.5])
def test_a_time_too_short_to_read_is_planned_like_half_a_microsecond(baseline_us):
    assert plan_of(Mode.BATCHES, baseline_us) == plan_of(Mode.BATCHES, 0.5)


def test_the_looks_are_the_callers():
    plan = make_plan(Mode.CPU, 50.0, ENTRY_BYTES, FREE_BYTES, Wanted(looks=(3, 5), confirmation_pairs=4))

    assert (plan.looks, plan.confirmation_pairs) == ((3, 5), 4)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("baseline_us", TIMES_US)
def test_drawn_counts_stay_within_the_slots_and_differ(mode, baseline_us):
    chance, plan = random.Random(1), plan_of(mode, baseline_us)
    drawn = [draw_calls(plan, chance) for _ in range(500)]

    assert all(1 <= n1 < n2 <= plan.slots for n1, n2 in drawn)
    assert all(n1 <= plan.n1 + int(plan.n1 * 0.2) for n1, _ in drawn)  # what the pool has room for
    if plan.n2 >= 10:
        assert len({n2 for _, n2 in drawn}) > 1


def test_no_call_of_a_long_batch_knows_that_it_is_the_last():
    chance, plan = random.Random(1), plan_of(Mode.BATCHES, 2.0)

    assert len({draw_calls(plan, chance)[1] for _ in range(2000)}) > 40


@pytest.mark.parametrize("mode", Mode)
def test_a_plan_for_any_time_and_memory_can_be_built(mode):
    chance = random.Random(2)
    for _ in range(2000):
        plan = make_plan(mode, 10 ** chance.uniform(-2, 7), int(10 ** chance.uniform(0, 12)), int(10 ** chance.uniform(6, 12)),
                         Wanted())
        n1, n2 = draw_calls(plan, chance)
        assert 1 <= n1 < n2 <= plan.slots


def test_calls_of_a_card_that_share_nothing_have_chains_and_no_others():
    assert plan_of(Mode.BATCHES, 2.0).links == plan_of(Mode.BATCHES, 1_000.0).links == LINKS
    assert plan_of(Mode.BATCHES, 50_000.0).links == ()  # 12 us are nothing there
    assert plan_of(Mode.CPU, 2.0).links == ()
    assert plan_of(Mode.LATENCY, 2.0).links == ()
    assert make_plan(Mode.BATCHES, 2.0, ENTRY_BYTES, FREE_BYTES, Wanted(), is_shared=True).links == ()
    assert plan_of(Mode.BATCHES, 2.0, free_bytes=40 * ENTRY_BYTES).links == ()  # memory has room for too few calls
