"""Claims: where the plan has chains, whose inputs are made one after the other, a gain that a first call could hide must show in
them."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from handmade import evidence, quiet

from hotkernel.judge.doubts import CHAINED_GAIN_US, needs_chains
from hotkernel.judge.verdict import decide
from hotkernel.schema.verdict import Batch, Evidence, Side, Stage, VerdictKind

BASE = 10.0  # of a small kernel: less than what a first call may be colder
LINKS = (2, 8)
HANDED_US = 35.0  # from one call to the next: the fill, the flush, two events


def chained(candidate_us: float, in_chains_us: float, *, noise_us: float = 0.5, first_us: float = 0.0, void: int = 0,
            base: float = BASE) -> Evidence:
    """A candidate of so many us a call in batches and so many in chains, `first_us` colder in each first call; of its chains
    the first `void` are void."""
    rng = random.Random(4)
    made = evidence(quiet(base, 3), quiet(candidate_us, 3), [(base, candidate_us)] * 3)
    chains = []
    for pair, value in ((pair, value) for pair in (3, 4, 5) for value in range(4)):
        for calls in LINKS:
            for side, us in ((Side.CANDIDATE, in_chains_us), (Side.BASELINE, base)):
                first = first_us if side is Side.CANDIDATE else 0.0
                span = 100.0 + calls * (HANDED_US + us) + first + rng.gauss(0, noise_us)
                is_void = side is Side.CANDIDATE and 4 * (pair - 3) + value < void
                chains.append(Batch(side, Stage.CONFIRMATION, pair, value, calls, span, 0.1, void="late" if is_void else None))
    return replace(made, plan=replace(made.plan, links=LINKS), chains=tuple(chains))


def test_calls_that_are_worked_out_all_at_once_show_nothing_in_chains_however_small_they_are():
    verdict = decide(chained(BASE / 4, in_chains_us=BASE))

    assert (verdict.kind, verdict.rule) == (VerdictKind.INCONCLUSIVE, "gain_not_in_one_call")


@pytest.mark.parametrize("candidate_us", [BASE / 4, 0.5 * BASE, 0.8 * BASE])
def test_a_gain_that_chains_have_too_stands_however_cold_the_first_call_is(candidate_us):
    assert decide(chained(candidate_us, in_chains_us=candidate_us, first_us=30.0)).kind is VerdictKind.FASTER


def test_a_small_gain_that_chains_are_too_noisy_to_show_stands():
    assert decide(chained(0.85 * BASE, in_chains_us=0.95 * BASE, noise_us=3.0)).kind is VerdictKind.FASTER


def test_a_side_whose_chains_are_mostly_void_has_shown_nothing():
    assert decide(chained(BASE / 4, in_chains_us=BASE / 4, void=5)).kind is VerdictKind.FASTER
    assert decide(chained(BASE / 4, in_chains_us=BASE / 4, void=7)).rule == "gain_not_in_one_call"


def test_without_a_single_chain_nothing_is_shown():
    verdict = decide(replace(chained(BASE / 4, in_chains_us=BASE / 4), chains=()))

    assert (verdict.kind, verdict.rule) == (VerdictKind.INCONCLUSIVE, "gain_not_in_one_call")


def test_of_a_long_call_too_a_gain_that_a_first_call_could_hide_must_be_in_chains():
    base, less = 10 * CHAINED_GAIN_US, 9 * CHAINED_GAIN_US + 1

    assert decide(chained(less, in_chains_us=base, base=base)).rule == "gain_not_in_one_call"
    assert decide(chained(less, in_chains_us=less, base=base)).kind is VerdictKind.FASTER


def test_a_gain_that_no_first_call_hides_needs_no_chains():
    base = 10 * CHAINED_GAIN_US
    made = replace(chained(base / 2, in_chains_us=base, base=base), chains=())

    assert not needs_chains(made.plan, made.batches, made.fills)
    assert decide(made).kind is VerdictKind.FASTER


def test_chains_are_asked_for_by_a_confirmations_gain_alone():
    made = chained(BASE / 4, in_chains_us=BASE / 4)
    looks = [batch for batch in made.batches if batch.stage is Stage.LOOK]

    assert needs_chains(made.plan, made.batches, made.fills)
    assert not needs_chains(made.plan, looks, made.fills)
    assert not needs_chains(replace(made.plan, links=()), made.batches, made.fills)
