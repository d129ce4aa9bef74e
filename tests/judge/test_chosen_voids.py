"""Claims: a side that makes its slow batches void gains nothing by it; a machine that makes both sides' void decides nothing."""

from __future__ import annotations

import random
from dataclasses import replace

from handmade import PLAN, batches_of, evidence, fresh, quiet

from hotkernel.judge import doubts, samples
from hotkernel.judge.verdict import decide
from hotkernel.schema.verdict import Batch, Evidence, Side, Stage, VerdictKind

BASE = 400.0


def chosen(candidate: float, *, tries: int, blames: tuple[Side, ...], spread: float = 0.05) -> Evidence:
    """Confirmation values of which the best of several tries is kept; the others' batches are void on these sides."""
    rng = random.Random(3)
    looks = evidence(quiet(BASE, 3), quiet(candidate * (1 - spread), 3))
    made: list[Batch] = list(looks.batches)
    for pair in range(3, 6):
        for value in range(PLAN.values_per_pair):
            spots = (spread * (2 * place / (tries - 1) - 1) for place in range(tries))
            drawn = [candidate * (1 + spot + rng.gauss(0, 0.002)) for spot in spots]
            for us in [*rng.sample(drawn[1:], tries - 1), drawn[0]]:
                times = {Side.BASELINE: [BASE + rng.gauss(0, 0.5)], Side.CANDIDATE: [us]}
                is_void = us != drawn[0]
                made += [replace(batch, value=value, void="shared" if is_void and batch.side in blames else None)
                         for batch in batches_of(Stage.CONFIRMATION, pair, times)]
    return replace(looks, batches=tuple(made))


def test_the_best_of_many_tries_is_no_gain_where_one_side_spoilt_the_others():
    verdict = decide(chosen(BASE, tries=4, blames=(Side.CANDIDATE,)))

    assert (verdict.kind, verdict.rule) == (VerdictKind.INCONCLUSIVE, "voids_on_one_side")


def test_a_real_gain_stands_although_one_side_had_all_the_void_batches():
    assert decide(chosen(BASE / 2, tries=4, blames=(Side.CANDIDATE,))).kind is VerdictKind.FASTER


def test_void_batches_of_both_sides_accuse_nobody():
    verdict = decide(chosen(BASE / 2, tries=4, blames=(Side.BASELINE, Side.CANDIDATE)))

    assert verdict.kind is VerdictKind.FASTER


def test_a_few_void_batches_accuse_nobody():
    honest = evidence(quiet(BASE, 3), quiet(360.0, 3), fresh(BASE, 360.0, 3))
    one = next(b for b in honest.batches if b.stage is Stage.CONFIRMATION and b.side is Side.CANDIDATE)
    spoilt = replace(honest, batches=(*honest.batches, *(replace(one, void="shared") for _ in range(5))))

    assert decide(spoilt).kind is VerdictKind.FASTER


def test_each_try_counts_as_a_value_when_nothing_is_void():
    found = chosen(BASE, tries=4, blames=(Side.CANDIDATE,))
    values = samples.values_of(found.plan, doubts.with_voids(found.plan, found.batches), found.fills)
    of_pair = [v for v in values if v.pair == 3 and v.side is Side.CANDIDATE]

    assert len(of_pair) == 4 * PLAN.values_per_pair
