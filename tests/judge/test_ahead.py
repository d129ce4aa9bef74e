"""Claims: what the calls ahead of batches do is no gain, for no clock sees it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from handmade import evidence, quiet

from hotkernel.judge.doubts import AHEAD_US
from hotkernel.judge.verdict import decide
from hotkernel.schema.verdict import Evidence, Side, Stage, VerdictKind

BASE, CANDIDATE = 1_000.0, 500.0


def ahead(more_us: float, *, one_in: int = 1) -> Evidence:
    """A gain of half, whose calls ahead take so much longer on the mean, all of it in one of so many."""
    made = evidence(quiet(BASE, 3), quiet(CANDIDATE, 3), [(BASE, CANDIDATE)] * 3)
    seen = 0

    def of(batch):
        nonlocal seen
        if batch.side is Side.BASELINE or batch.stage is not Stage.CONFIRMATION:
            return replace(batch, ahead_us=BASE)
        seen += 1
        return replace(batch, ahead_us=CANDIDATE + (one_in * more_us if seen % one_in == 0 else 0.0))

    return replace(made, batches=tuple(of(batch) for batch in made.batches))


def gained_us(made: Evidence) -> float:
    counts = [batch.calls for batch in made.batches if batch.stage is Stage.CONFIRMATION]
    return (BASE - CANDIDATE) * sum(counts) / len(counts)


@pytest.mark.parametrize("one_in", [1, 4])
def test_calls_ahead_that_take_half_of_the_gain_longer_are_where_it_comes_from(one_in):
    room = BASE - CANDIDATE  # by which the candidate's own call is shorter
    found = decide(ahead(room + 0.6 * gained_us(ahead(0.0)), one_in=one_in))

    assert (found.kind, found.rule) == (VerdictKind.INCONCLUSIVE, "done_ahead")


def test_a_call_ahead_may_be_colder_than_the_baselines():
    assert decide(ahead(BASE - CANDIDATE + AHEAD_US - 1)).kind is VerdictKind.FASTER


def test_without_calls_ahead_nothing_is_said():
    assert decide(evidence(quiet(BASE, 3), quiet(CANDIDATE, 3), [(BASE, CANDIDATE)] * 3)).kind is VerdictKind.FASTER
