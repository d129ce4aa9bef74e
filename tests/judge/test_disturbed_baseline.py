"""Claims: a gain that the candidate made by disturbing the baseline is no gain, and an honest one is not doubted."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from handmade import PLAN, batches_of, evidence, fresh, quiet

from hotkernel.judge import samples
from hotkernel.judge.verdict import decide
from hotkernel.schema.verdict import Batch, Evidence, Side, Stage, VerdictKind

BASE, PAIRS = 400.0, 3


def with_alone(found: Evidence, us: float, sd_us: float = 0.2) -> Evidence:
    """The same evidence, with the baseline of each confirmation pair measured alone at about `us` before the pair."""
    rng = random.Random(7)
    made: list[Batch] = []
    for batch in found.batches:
        is_first = batch.stage is Stage.CONFIRMATION and all(b.pair != batch.pair for b in made)
        if is_first:
            times = {Side.BASELINE: [us + rng.gauss(0, sd_us) for _ in range(PLAN.values_per_pair // 2)]}
            made += batches_of(Stage.ALONE, batch.pair, times)
        made.append(batch)
    return replace(found, batches=tuple(made))


def gain(base: float, candidate: float) -> Evidence:
    return evidence(quiet(base, PAIRS), quiet(candidate, PAIRS), fresh(base, candidate, PAIRS))


def test_a_gain_against_a_baseline_that_is_the_same_alone_is_faster():
    assert decide(with_alone(gain(BASE, 360.0), BASE)).kind is VerdictKind.FASTER


@pytest.mark.parametrize("candidate", [400.0, 380.0, 200.0])
def test_a_baseline_that_is_slower_beside_the_candidate_than_alone_was_disturbed(candidate):
    verdict = decide(with_alone(gain(2 * BASE, candidate), BASE))

    assert (verdict.kind, verdict.rule) == (VerdictKind.INCONCLUSIVE, "baseline_disturbed")


def test_a_small_disturbance_does_not_make_a_gain():
    """Below the 2 % that would be called a disturbance, the gain against the baseline alone must still be half of it."""
    verdict = decide(with_alone(gain(1.015 * BASE, BASE), BASE))

    assert (verdict.kind, verdict.rule) == (VerdictKind.INCONCLUSIVE, "baseline_disturbed")


def test_a_baseline_that_is_faster_beside_the_candidate_is_not_disturbed():
    assert decide(with_alone(gain(BASE, 360.0), 1.05 * BASE)).kind is VerdictKind.FASTER


def test_noise_in_the_baseline_alone_does_not_hide_a_gain():
    assert decide(with_alone(gain(BASE, 300.0), BASE, sd_us=20.0)).kind is VerdictKind.FASTER


def test_evidence_without_values_of_the_baseline_alone_is_judged_as_before():
    assert decide(gain(BASE, 360.0)).kind is VerdictKind.FASTER


def test_the_baseline_alone_is_no_sample_of_either_side():
    found = with_alone(gain(BASE, 360.0), 2 * BASE)
    values = samples.values_of(found.plan, found.batches, found.fills)
    bare = gain(BASE, 360.0)
    plain = samples.values_of(bare.plan, bare.batches, bare.fills)

    assert samples.measurement_of(values, Side.BASELINE) == samples.measurement_of(plain, Side.BASELINE)
    assert samples.resolution_of(found.plan, values) == samples.resolution_of(bare.plan, plain)
    assert len(samples.pairs_of(found.plan, values)) == 2 * PAIRS
