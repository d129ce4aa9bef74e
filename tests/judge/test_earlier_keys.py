"""Claims about verify's answer in the words of hotkernel 0.1: each key true, or null with its reason."""

from __future__ import annotations

import dataclasses

import pytest
from handmade import evidence, fresh, quiet

from hotkernel.judge import samples
from hotkernel.judge.earlier_keys import verify_result
from hotkernel.judge.verdict import decide
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.plain import from_plain, to_plain
from hotkernel.schema.verdict import Evidence, Side, VerdictKind

KEYS = ("n", "warmup", "order", "wall_s", "delta_ms", "threshold_ms", "significant")


def compared(found: Evidence) -> Comparison:
    verdict, values = decide(found), samples.values_of(found.plan, found.batches, found.fills)
    return Comparison(
        id="20261130-135200-a1b2c3d4", target="rms", verdict=verdict.kind, reason=verdict.reason, speedup=verdict.speedup,
        baseline=samples.measurement_of(values, Side.BASELINE), candidate=samples.measurement_of(values, Side.CANDIDATE),
        timestamp="2026-11-30T13:52:00+00:00", protocol=4, device="cuda", assurance="process", evidence=found)


def scripts(verdict: str, baseline_ms: list[float], candidate_ms: list[float]) -> Comparison:
    return dataclasses.replace(
        compared(evidence(quiet(400, 3), quiet(400, 3))), verdict=VerdictKind(verdict), evidence=None, self_reported=True,
        assurance="self_reported", baseline=samples.measure(baseline_ms), candidate=samples.measure(candidate_ms))


def test_a_targets_answer_counts_its_pairs_and_says_why_the_rest_is_null():
    answer = verify_result(compared(evidence(quiet(400, 3), quiet(300, 3), fresh(400, 300, 3))), warmup=None, wall_s=4.5)

    assert (answer.n, answer.significant, answer.wall_s) == (6, True, 4.5)
    assert answer.delta_ms == pytest.approx(0.1, rel=0.01)
    assert set(answer.null_because) == {"warmup", "threshold_ms"}
    assert "interval_99" in answer.null_because["threshold_ms"]


def test_scripts_are_told_as_they_always_were():
    found = dataclasses.replace(scripts("faster", [2.0, 2.2, 2.1], [1.0, 1.1, 1.2]), interval_99=(1.5 / 1.2, 1.5 * 1.2))
    answer = verify_result(found, warmup=2, wall_s=1.0)

    assert (answer.n, answer.warmup, answer.significant) == (3, 2, True)
    assert answer.delta_ms == pytest.approx(1.0)
    assert answer.threshold_ms == pytest.approx(2.1 * (1 - 1 / 1.2))
    assert answer.null_because == {}


def test_no_difference_is_not_significant_and_a_refusal_is_neither():
    equal = verify_result(compared(evidence(quiet(400, 3), quiet(400, 3))), warmup=None, wall_s=1.0)
    wrong = verify_result(dataclasses.replace(scripts("incorrect", [1.0], [1.0]), candidate=None), warmup=1, wall_s=1.0)

    assert equal.significant is False
    assert (wrong.significant, wrong.delta_ms, wrong.threshold_ms, wrong.n) == (None, None, None, None)
    assert {"significant", "delta_ms", "threshold_ms", "n"} <= set(wrong.null_because)


def test_every_key_that_is_null_has_its_reason():
    for found in (compared(evidence(quiet(400, 3), quiet(400, 3))), scripts("incorrect", [1.0], [1.0])):
        answer = verify_result(found, warmup=None if not found.self_reported else 2, wall_s=1.0)
        assert {name for name in KEYS if getattr(answer, name) is None} == set(answer.null_because)


def test_the_samples_stand_under_both_names_and_what_is_kept_is_as_before():
    found = compared(evidence(quiet(400, 3), quiet(300, 3), fresh(400, 300, 3)))
    answer = verify_result(found, warmup=None, wall_s=1.0)

    assert answer.baseline is not None
    assert answer.baseline.samples_ms == answer.baseline.samples == found.baseline.samples
    assert from_plain(Comparison, to_plain(answer)) == dataclasses.replace(found, evidence=None)
