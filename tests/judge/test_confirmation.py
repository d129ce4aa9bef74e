"""What comes after a look: the confirmation, and the ledger's rule for whoever asks again."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from handmade import PLAN, evidence, fresh, gaps, quiet

from hotkernel.judge import sequence
from hotkernel.judge.verdict import confirm, decide, next_step
from hotkernel.schema.verdict import Side, Stage, VerdictKind

FASTER, INCONCLUSIVE = VerdictKind.FASTER, VerdictKind.INCONCLUSIVE
LOOK, CONFIRMATION = Stage.LOOK, Stage.CONFIRMATION


# Confirmation -------------------------------------------------------------------------------------------------------


def test_a_gain_that_fresh_pairs_do_not_show_is_inconclusive_and_says_so():
    verdict = decide(evidence(quiet(36, 3), quiet(35, 3), fresh(36, 36)))

    assert verdict.kind is INCONCLUSIVE
    assert verdict.rule == "not_confirmed"
    assert verdict.speedup == pytest.approx(1.0, abs=0.002)  # the confirmation's own, not the look's
    assert "the looks saw it 2.8 % faster (99 %: 2." in verdict.reason


def test_no_evidence_without_confirmation_pairs_is_faster():
    for seed in range(100):
        rng = random.Random(seed)
        gain = rng.choice([0.01, 0.05, 0.5, 30.0])
        looks = rng.randrange(1, 13)
        given = evidence(quiet(36, looks, rng), quiet(36 / (1 + gain), looks, rng))
        earlier = gaps(LOOK, *[rng.gauss(100, 0.1) for _ in range(rng.choice([0, 4, 9]))])
        for pairs in ((), gaps(CONFIRMATION, 9.0, 9.1, 9.0)):
            assert decide(dataclasses.replace(given, earlier=(*earlier, *pairs))).kind is not FASTER


def test_a_confirmation_that_is_short_of_its_pairs_is_unfinished():
    for done in range(3):
        verdict = decide(evidence(quiet(36, 3), quiet(12, 3), fresh(36, 12)[:done]))
        assert verdict.kind is INCONCLUSIVE
        assert verdict.rule == "unfinished"
        assert f"{done} of the 3 pairs that the confirmation needs" in verdict.reason
    for pairs in ((), gaps(CONFIRMATION, 30.0), gaps(LOOK, 30.0, 30.0, 30.0)):
        assert confirm(PLAN, pairs).kind is INCONCLUSIVE


def test_the_size_of_the_confirmation_is_fixed_by_the_looks_and_more_pairs_do_not_help():
    close = next_step(PLAN, gaps(LOOK, 2.0, 2.15, 2.05))
    far = next_step(PLAN, gaps(LOOK, 30.0, 30.1, 30.0))
    late = next_step(PLAN, gaps(LOOK, 1.5, 2.0, 2.5, 2.1, 1.8))

    assert [(step.stage, step.pairs) for step in (close, far, late)] == [
        (CONFIRMATION, 7), (CONFIRMATION, 3), (CONFIRMATION, 10)
    ]
    failed = [*gaps(LOOK, 30.0, 30.1, 30.0), *gaps(CONFIRMATION, 30.0, 1.0, 0.0, first=3)]
    assert next_step(PLAN, failed).verdict.kind is INCONCLUSIVE
    assert next_step(PLAN, [*failed, *gaps(CONFIRMATION, 30.0, 30.0, 30.0, first=6)]).verdict.kind is INCONCLUSIVE


def test_a_given_n_caps_the_looks_and_the_confirmation():
    capped = dataclasses.replace(PLAN, looks=(3,))

    assert next_step(capped, gaps(LOOK, 2.0, 2.15, 2.05)).pairs == 3
    assert next_step(capped, gaps(LOOK, 1.0, 2.0, 3.0)).verdict.kind is INCONCLUSIVE
    assert sequence.looks_within(1) == sequence.looks_within(4) == (3,)
    assert sequence.looks_within(7) == (3, 5, 7)
    assert sequence.looks_within(21) == (3, 5, 7, 10, 15, 20)


def test_a_gain_made_by_slowing_short_batches_down_is_not_faster():
    honest = evidence(quiet(36, 3), quiet(36, 3), fresh(36, 36))
    slowed = dataclasses.replace(honest, batches=tuple(
        dataclasses.replace(batch, span_us=batch.span_us + 100.0)
        if batch.side is Side.CANDIDATE and batch.calls == PLAN.n1 else batch for batch in honest.batches
    ))

    verdict = decide(slowed)

    assert verdict.kind is INCONCLUSIVE
    assert verdict.rule == "gain_not_in_long_batches"
    assert "16.2 % faster" in verdict.reason


# The ledger ---------------------------------------------------------------------------------------------------------


def test_all_looks_for_ever_spend_at_most_fifty_five_hundredths_of_a_percent():
    sizes = [3]
    while sizes[-1] < 20_000:
        sizes.append(sequence.next_look(sizes[-1]))

    assert sizes[:9] == [3, 5, 7, 10, 15, 20, 30, 40, 50]
    assert sum(map(sequence.alpha_at, sizes[:4])) == pytest.approx(0.005)
    assert 0.00549 < sum(map(sequence.alpha_at, sizes)) < 0.0055
    assert [sequence.alpha_at(size) for size in (0, 1, 4, 6, 11, 16, 25)] == [0.0] * 7


def test_asking_again_goes_on_with_the_pairs_there_are():
    ten = gaps(LOOK, *[0.5, 5.5, 2.0, -4.5, 4.0, 2.2, -3.0, 3.0, -0.5, 2.5])
    assert next_step(PLAN, ten).verdict.kind is INCONCLUSIVE

    again = next_step(PLAN, (), earlier=ten)
    assert (again.stage, again.pairs) == (LOOK, 5)
    five = gaps(LOOK, 2.1, 1.9, 2.0, 2.2, 1.8)
    assert next_step(PLAN, five).stage is CONFIRMATION  # what it would be if the test began anew
    went_on = next_step(PLAN, five, earlier=ten)
    assert (went_on.stage, went_on.pairs) == (LOOK, 10)
    verdict = next_step(PLAN, ten, earlier=(*ten, *ten)).verdict
    assert (verdict.kind, verdict.pairs) == (INCONCLUSIVE, 30)


def test_a_verify_too_short_for_the_next_look_still_adds_its_pairs():
    short = dataclasses.replace(PLAN, looks=(3,))
    twelve = gaps(LOOK, *[0.5, 3.5, 2.0, -1.5, 4.0, 2.2, 1.0, 3.0, -0.5, 2.5, 0.0, 1.0])

    assert next_step(short, (), earlier=twelve[:11]).pairs == 3
    verdict = next_step(short, gaps(LOOK, 9.0, 9.0, 9.0), earlier=twelve[:11]).verdict
    assert verdict.kind is INCONCLUSIVE
    assert "the next look comes at 15 pairs" in verdict.reason
    assert next_step(short, gaps(LOOK, 0.0, 1.0, 2.0), earlier=twelve).verdict.pairs == 15


def test_asking_again_after_a_confirmed_gain_takes_one_fresh_confirmation_set():
    confirmed = (*gaps(LOOK, 5.0, 5.1, 4.9), *gaps(CONFIRMATION, 5.0, 5.05, 4.95, first=3))

    step = next_step(PLAN, (), earlier=confirmed)
    assert (step.stage, step.pairs) == (CONFIRMATION, 3)
    again = gaps(CONFIRMATION, 4.9, 4.92, 4.88)
    assert next_step(PLAN, again, earlier=confirmed).verdict.speedup == pytest.approx(math.exp(0.049))
    assert next_step(PLAN, (), earlier=(*confirmed, *again)).stage is CONFIRMATION


def test_after_a_failed_confirmation_its_pairs_count_and_the_looks_go_on():
    failed = (*gaps(LOOK, 5.0, 5.1, 4.9), *gaps(CONFIRMATION, 0.1, -0.1, 0.0, first=3))

    step = next_step(PLAN, (), earlier=failed)
    assert (step.stage, step.pairs) == (LOOK, 1)  # six there are; the look at five has passed by
    refuted = (*gaps(LOOK, 5.0, 5.1, 4.9), *gaps(CONFIRMATION, 5.0, 5.1, 4.9, first=3), *gaps(CONFIRMATION, 0, 1, -1))
    assert next_step(PLAN, (), earlier=refuted).stage is LOOK


def test_all_confirmations_for_ever_spend_at_most_two_percent():
    spent = [sequence.confirmation_alpha(failed) for failed in range(20_000)]

    assert spent[0] == 0.01
    assert 0.0199 < sum(spent) < 0.02


def test_what_a_failed_confirmation_leaves_to_the_next():
    earlier = (*gaps(LOOK, 30.0, 30.1, 30.0), *gaps(CONFIRMATION, 3.0, 0.0, -1.0, first=3))
    looks = gaps(LOOK, *[30.0] * 4)
    shown = gaps(CONFIRMATION, *[1.1, 2.9] * 5, first=4)
    barely = gaps(CONFIRMATION, *[0.1, 3.9] * 5, first=4)

    assert confirm(PLAN, barely).kind is confirm(PLAN, shown).kind is FASTER
    assert confirm(PLAN, barely, alpha=0.01 / 3).kind is INCONCLUSIVE
    for pairs, kind in ((shown, FASTER), (barely, INCONCLUSIVE)):
        step = next_step(PLAN, (*looks, *pairs), earlier=earlier)
        assert (step.stage, step.verdict.kind, step.verdict.pairs) == (None, kind, 10)
