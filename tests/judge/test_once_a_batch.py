"""Claims: what is worked out once for all calls of a batch, or saved by the copies of outputs, is no gain."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from handmade import evidence, quiet

from hotkernel.judge.verdict import decide
from hotkernel.schema.verdict import Batch, Evidence, Side, VerdictKind

BASE = 400.0


def of_single_calls(candidate_us: float, *, once_us: float = 0.0, is_shared: bool = True, noise_us: float = 3.0,
                    waits_us: float = 0.0) -> Evidence:
    """Short batches of one call; each batch of the candidate takes `once_us` more, however many calls it has, and every third
    one `waits_us` besides."""
    rng = random.Random(4)
    made = evidence(quiet(BASE, 3), quiet(candidate_us, 3), [(BASE, candidate_us)] * 3)
    plan = replace(made.plan, n1=1, is_shared=is_shared)

    def changed(batch: Batch) -> Batch:
        us = BASE if batch.side is Side.BASELINE else candidate_us
        calls = 1 if batch.calls == made.plan.n1 else batch.calls
        once = once_us if batch.side is Side.CANDIDATE else 0.0
        waits = waits_us if batch.side is Side.CANDIDATE and rng.random() < 1 / 3 else 0.0
        return replace(batch, calls=calls, span_us=60.0 + us * calls + once + waits + rng.gauss(0, noise_us))

    return replace(made, plan=plan, batches=tuple(map(changed, made.batches)), fills=())


def test_a_gain_that_the_first_call_of_each_batch_pays_for_is_none():
    verdict = decide(of_single_calls(BASE / 2, once_us=BASE / 2))

    assert (verdict.kind, verdict.rule) == (VerdictKind.INCONCLUSIVE, "gain_not_in_one_call")


def test_a_candidate_that_makes_its_single_calls_noisy_hides_no_shortage():
    verdict = decide(of_single_calls(BASE / 2, once_us=0.3 * BASE, waits_us=BASE / 4))

    assert (verdict.kind, verdict.rule) == (VerdictKind.INCONCLUSIVE, "gain_not_in_one_call")


def test_a_gain_that_a_single_call_has_too_stands():
    assert decide(of_single_calls(BASE / 2)).kind is VerdictKind.FASTER


def test_a_large_gain_that_single_calls_do_not_have_is_none_however_noisy_they_are():
    verdict = decide(of_single_calls(BASE / 2, once_us=BASE / 2, noise_us=120.0, is_shared=False))

    assert (verdict.kind, verdict.rule) == (VerdictKind.INCONCLUSIVE, "gain_not_in_one_call")
    assert decide(of_single_calls(BASE / 2, noise_us=120.0, is_shared=False)).kind is VerdictKind.FASTER


def test_a_small_gain_stands_where_a_single_call_is_too_noisy_to_show_it():
    assert decide(of_single_calls(BASE * 0.95, noise_us=12.0)).kind is VerdictKind.FASTER


def test_calls_that_are_all_worked_out_with_the_first_have_no_gain_where_they_share_nothing():
    verdict = decide(of_single_calls(BASE / 2, once_us=BASE / 2, is_shared=False))

    assert (verdict.kind, verdict.rule) == (VerdictKind.INCONCLUSIVE, "gain_not_in_one_call")


@pytest.mark.parametrize(("is_shared", "kind"), [(False, VerdictKind.FASTER), (True, VerdictKind.INCONCLUSIVE)])
def test_a_first_call_that_is_a_little_colder_is_nobodys_where_calls_share_nothing(is_shared, kind):
    assert decide(of_single_calls(BASE - 12.0, once_us=9.0, is_shared=is_shared, noise_us=0.5)).kind is kind


def copied(candidate_us: float, copy_us: float | None) -> Evidence:
    return replace(evidence(quiet(BASE, 3), quiet(candidate_us, 3), [(BASE, candidate_us)] * 3), copy_us=copy_us)


def test_a_gain_no_larger_than_what_copies_cost_is_none():
    verdict = decide(copied(BASE - 100, copy_us=100.0))

    assert (verdict.kind, verdict.rule) == (VerdictKind.INCONCLUSIVE, "gain_within_copies")


def test_a_gain_larger_than_what_copies_cost_stands():
    assert decide(copied(BASE - 200, copy_us=100.0)).kind is VerdictKind.FASTER
    assert decide(copied(BASE - 100, copy_us=None)).kind is VerdictKind.FASTER
