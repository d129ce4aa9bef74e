"""The verdict on evidence made by hand: each word, each refusal, the looks, the confirmation, the ledger."""

from __future__ import annotations

import dataclasses
import math
import random

import pytest
from handmade import FILLS, PLAN, evidence, fresh, gaps, prefixes, quiet, span

from hotkernel.judge import sequence
from hotkernel.judge.samples import pairs_of, values_of
from hotkernel.judge.verdict import decide, decide_over_incumbent, next_step
from hotkernel.schema.plain import from_plain, to_plain
from hotkernel.schema.verdict import Batch, Evidence, Fault, Side, Stage, VerdictKind

FASTER, SLOWER, INCONCLUSIVE = VerdictKind.FASTER, VerdictKind.SLOWER, VerdictKind.INCONCLUSIVE
INVALID, INCORRECT = VerdictKind.INVALID, VerdictKind.INCORRECT
LOOK, CONFIRMATION = Stage.LOOK, Stage.CONFIRMATION


# The five words -----------------------------------------------------------------------------------------------------


def test_a_clear_win_is_seen_at_the_first_look_and_confirmed_by_three_fresh_pairs():
    verdict = decide(evidence(quiet(36, 3), quiet(12, 3), fresh(36, 12)[:3]))

    assert verdict.kind is FASTER
    assert verdict.speedup == pytest.approx(3.0, rel=0.003)
    assert verdict.pairs == 3
    assert {pair.stage for pair in verdict.pooled} == {CONFIRMATION}
    assert verdict.reason.startswith("3.00 times as fast (99 %: 2.9")
    assert verdict.reason.endswith("confirmed by 3 fresh pairs with new inputs")


def test_two_percent_are_seen_on_a_quiet_card_and_the_figures_are_the_confirmations_own():
    verdict = decide(evidence(quiet(36, 3), quiet(36 / 1.03, 3), fresh(36, 36 / 1.02)))

    assert verdict.kind is FASTER
    assert verdict.speedup == pytest.approx(1.02, abs=0.001)
    assert verdict.interval[0] < 1.02 < verdict.interval[1]
    assert verdict.reason.startswith("2.0 % faster (99 %: 1.")


def test_a_slower_candidate_is_slower_and_needs_no_confirmation():
    verdict = decide(evidence(quiet(36, 3), quiet(45, 3)))

    assert verdict.kind is SLOWER
    assert verdict.speedup == pytest.approx(0.8, rel=0.003)
    assert verdict.interval[0] < 0.8 < verdict.interval[1]
    assert verdict.reason.startswith("25.0 % slower (99 %: 2")


def test_equal_sides_without_any_variance_are_equivalent_and_stop_at_the_first_look():
    verdict = decide(evidence([36.0] * 3, [36.0] * 3, noise_us=0.0))

    assert verdict.kind is INCONCLUSIVE
    assert verdict.equivalent is True
    assert verdict.speedup == pytest.approx(1.0)
    assert verdict.pairs == 3


def test_no_variance_at_all_is_no_certainty_beyond_a_hundredth_of_a_percent():
    estimate = sequence.estimate(gaps(LOOK, 2.0, 2.0, 2.0, within=0.0))

    assert estimate.error == pytest.approx(1e-4 / math.sqrt(3))
    assert estimate.interval[0] < math.exp(0.02) < estimate.interval[1]


def test_three_pairs_that_agree_by_chance_have_the_variance_that_their_values_explain():
    assert sequence.estimate(gaps(LOOK, 2.0, 2.0, 2.0, within=0.01)).error == pytest.approx(0.01 / math.sqrt(3))
    wide = gaps(LOOK, 2.0, 2.0001, 2.0, within=0.01)
    assert next_step(PLAN, wide).stage is LOOK
    assert next_step(PLAN, gaps(LOOK, 2.0, 2.0001, 2.0, within=0.0003)).stage is CONFIRMATION


def test_four_tenths_of_a_percent_are_too_little_to_be_called_faster_however_sure():
    verdict = decide(evidence(quiet(36, 10), quiet(36 / 1.004, 10), noise_us=0.005))

    assert verdict.kind is INCONCLUSIVE
    assert verdict.equivalent is True
    assert verdict.speedup == pytest.approx(1.004, abs=0.001)


def test_noise_is_inconclusive_after_ten_pairs_and_says_what_it_would_have_seen():
    rng = random.Random(3)
    verdict = decide(evidence(quiet(36, 10), [36 * (1 + rng.gauss(0, 0.03)) for _ in range(10)]))

    assert verdict.kind is INCONCLUSIVE
    assert verdict.equivalent is False
    assert verdict.pairs == 10
    assert 1.5 < verdict.smallest_effect_pct < 6
    assert "after 10 pairs" in verdict.reason
    assert f"{verdict.smallest_effect_pct:.1f} % would have been seen" in verdict.reason


def test_a_noisy_card_goes_on_where_a_quiet_one_has_seen_enough():
    assert next_step(PLAN, gaps(LOOK, 1.9, 2.0, 2.1)).stage is CONFIRMATION
    noisy = next_step(PLAN, gaps(LOOK, 1.5, 2.0, 2.5))
    assert (noisy.stage, noisy.pairs) == (LOOK, 5)


def test_a_candidate_far_slower_ends_after_its_first_pair_or_its_first_value():
    whole = evidence([36.0], [800.0])
    first = dataclasses.replace(whole, batches=whole.batches[:4])

    for given in (whole, first):
        verdict = decide(given)
        assert verdict.kind is SLOWER
        assert verdict.pairs == 1
        assert verdict.interval is None
        assert verdict.reason == "takes 22.2 times as long; it ended early"
    assert decide(evidence([36.0], [600.0])).kind is INCONCLUSIVE  # 17 times: the looks say so


# Symmetry and scale -------------------------------------------------------------------------------------------------


def test_a_look_at_swapped_sides_is_the_mirror_image():
    for seed in range(200):
        rng = random.Random(seed)
        logs = [rng.gauss(rng.choice([0, 0.5, 1, 2, 5]), 0.4) for _ in range(rng.choice([3, 5, 7, 10]))]
        one = sequence.look(sequence.estimate(gaps(LOOK, *logs)), 0.002)
        other = sequence.look(sequence.estimate(gaps(LOOK, *(-log for log in logs))), 0.002)
        mirror = {sequence.Finding.FASTER: sequence.Finding.SLOWER, sequence.Finding.SLOWER: sequence.Finding.FASTER}
        assert other is mirror.get(one, one)


def test_swapped_sides_turn_faster_into_slower_with_the_reciprocal_speedup():
    faster = decide(evidence(quiet(36, 3), quiet(30, 3), fresh(36, 30)))
    slower = decide(evidence(quiet(30, 3), quiet(36, 3)))

    assert (faster.kind, slower.kind) == (FASTER, SLOWER)
    assert faster.speedup * slower.speedup == pytest.approx(1.0, abs=0.005)


@pytest.mark.parametrize("candidate_us", [12.0, 35.2, 36.0, 40.0])
def test_times_that_are_all_scaled_change_nothing(candidate_us):
    plan = dataclasses.replace(PLAN, tick_us=0.0)
    given = (quiet(36, 10), quiet(candidate_us, 10), fresh(36, candidate_us))

    one, thousand = (decide(evidence(*given, plan=plan, scale=scale)) for scale in (1.0, 1000.0))

    assert one.kind is thousand.kind
    assert one.speedup == pytest.approx(thousand.speedup, rel=1e-9)
    assert one.interval == pytest.approx(thousand.interval, rel=1e-6)


def test_a_greater_gain_with_the_same_noise_never_gets_a_lesser_verdict():
    order = {SLOWER: 0, INCONCLUSIVE: 1, FASTER: 2}
    rng = random.Random(4)
    noise = [rng.gauss(0, 0.5) for _ in range(20)]
    kinds = []
    for tenths in range(-60, 61):
        given = [*gaps(LOOK, *(tenths / 10 + n for n in noise[:10]))]
        given += gaps(CONFIRMATION, *(tenths / 10 + n for n in noise[10:]), first=10)
        kinds.append(order[next_step(PLAN, given).verdict.kind])

    assert kinds == sorted(kinds)
    assert set(kinds) == {0, 1, 2}


# Running and reading again ------------------------------------------------------------------------------------------


def conclude(everything: Evidence):
    """What a referee concludes that measures pair by pair and asks after each; with the evidence it then has."""
    for batches in prefixes(everything.batches):
        so_far = dataclasses.replace(everything, batches=batches)
        pairs = pairs_of(so_far.plan, values_of(so_far.plan, so_far.batches, so_far.fills))
        step = next_step(so_far.plan, pairs, earlier=so_far.earlier)
        if step.verdict is not None:
            return step.verdict, so_far
    return None, everything


@pytest.mark.parametrize("seed", range(60))
def test_evidence_read_again_gives_what_the_running_referee_concluded(seed):
    rng = random.Random(seed)
    spread, gain = rng.choice([0.0005, 0.003, 0.01]), rng.choice([0.0, 0.004, 0.01, 0.02, 0.1, -0.03])
    plan = dataclasses.replace(PLAN, looks=rng.choice([(3,), (3, 5), (3, 5, 7, 10)]))
    earlier = gaps(LOOK, *(100 * rng.gauss(gain, spread) for _ in range(rng.choice([0, 0, 3, 10]))))
    base = [36 * (1 + rng.gauss(0, spread)) for _ in range(20)]
    other = [36 / (1 + gain) * (1 + rng.gauss(0, spread)) for _ in range(20)]
    whole = throttle(rng, evidence(base[:10], other[:10], plan=plan, earlier=earlier))
    running, used = conclude(whole)
    if running is None:  # the looks want a confirmation
        fresh_pairs = list(zip(base[10:], other[10:], strict=True))
        whole = throttle(rng, evidence(base[:10], other[:10], fresh_pairs, plan=plan, earlier=earlier))
        running, used = conclude(whole)

    saved = from_plain(Evidence, to_plain(used))
    assert saved == used
    assert decide(saved) == running
    assert decide(whole) == running


def throttle(rng, given):
    """One batch in fifty was taken under a hardware slowdown."""
    hit = [dataclasses.replace(b, throttle_mask=0x40 if rng.random() < 0.02 else 0) for b in given.batches]
    return dataclasses.replace(given, batches=tuple(hit))


def test_pairs_measured_after_the_end_change_nothing():
    ended = decide(evidence(quiet(36, 3), quiet(45, 3)))

    assert decide(evidence(quiet(36, 9), [*quiet(45, 3), *quiet(10, 6)], fresh(36, 10))) == ended


# Refusals -----------------------------------------------------------------------------------------------------------

WRONG = Fault(INCORRECT, "mismatch", "row 7 is off by 0.3", Side.CANDIDATE)
FORGED = Fault(INVALID, "second_hello", "the candidate said hello twice", Side.CANDIDATE)
EXITED = Fault(INVALID, "early_exit", "the candidate's process ended", Side.CANDIDATE)


@pytest.mark.parametrize(
    ("faults", "kind", "rule"),
    [
        ((WRONG,), INCORRECT, "mismatch"),
        ((WRONG, EXITED, FORGED), INVALID, "early_exit"),
        ((FORGED, EXITED), INVALID, "second_hello"),
        ((WRONG, Fault(INCORRECT, "mismatch_b", "row 1", Side.BASELINE)), INVALID, "mismatch_b"),
    ],
)
def test_faults_come_before_all_times_and_invalid_before_incorrect(faults, kind, rule):
    verdict = decide(dataclasses.replace(evidence(quiet(36, 3), quiet(12, 3), fresh(36, 12)), faults=faults))

    assert (verdict.kind, verdict.rule, verdict.speedup) == (kind, rule, None)


def test_a_baseline_that_fails_its_own_check_is_invalid_and_says_whose_fault_it_is():
    verdict = decide(Evidence(PLAN, faults=(Fault(INCORRECT, "nan", "NaN at 3", Side.BASELINE),)))

    assert verdict.kind is INVALID
    assert verdict.reason == "the baseline fails its own check: NaN at 3"


def test_a_candidate_below_the_floor_is_invalid_and_a_baseline_below_it_is_a_wrong_target():
    memo = decide(dataclasses.replace(evidence(quiet(36, 3), quiet(0.02, 3), fresh(36, 0.02)), floor_us=15.0))
    wrong = decide(dataclasses.replace(evidence(quiet(36, 3), quiet(20, 3), fresh(36, 20)), floor_us=40.0))
    late = decide(dataclasses.replace(evidence(quiet(36, 3), quiet(20, 3), fresh(36, 2)), floor_us=15.0))
    honest = decide(dataclasses.replace(evidence(quiet(36, 3), quiet(16, 3), fresh(36, 16)), floor_us=15.0))

    assert (memo.kind, memo.rule) == (INVALID, "below_physical_floor")
    assert (wrong.kind, wrong.rule) == (INVALID, "wrong_target")
    assert (late.kind, late.rule) == (INVALID, "below_physical_floor")
    assert honest.kind is FASTER


def test_a_time_below_zero_is_no_record_even_without_a_calibration():
    assert decide(evidence([36.0] * 3, [-0.1] * 3, [(36.0, -0.1)] * 3)).rule == "below_physical_floor"


def test_a_card_that_was_not_quiet_decides_nothing_whatever_the_pairs_say():
    given = evidence(quiet(36, 3), quiet(12, 3), fresh(36, 12))
    foreign = decide(dataclasses.replace(given, quiet=False, note="python (pid 7) computed on it"))
    hot = tuple(dataclasses.replace(b, throttle_mask=0x40) if b.value == 1 else b for b in given.batches)
    throttled = decide(dataclasses.replace(given, quiet=False, batches=hot, note="hardware thermal slowdown"))

    assert (foreign.kind, foreign.reason) == (INCONCLUSIVE, "card not quiet: python (pid 7) computed on it")
    assert (throttled.kind, throttled.reason) == (INCONCLUSIVE, "throttled: hardware thermal slowdown")
    assert decide(dataclasses.replace(given, batches=hot)).kind is FASTER  # seven of eight values remain


def test_no_times_at_all_are_inconclusive_without_a_speedup():
    verdict = decide(Evidence(PLAN))

    assert (verdict.kind, verdict.speedup, verdict.rule) == (INCONCLUSIVE, None, "unfinished")
    assert verdict.reason == "stopped at 0 of the 3 pairs that the next look needs"


# The incumbent -----------------------------------------------------------------------------------------------------


def with_incumbent(incumbent_us, candidate_us):
    rng = random.Random(9)
    made = []
    for pair in range(6):
        stage = LOOK if pair < 3 else CONFIRMATION
        for value in range(8):
            for side, us in ((Side.BASELINE, 36.0), (Side.INCUMBENT, incumbent_us), (Side.CANDIDATE, candidate_us)):
                us += rng.gauss(0, 0.02)
                made += [Batch(side, stage, pair, value, calls, span(us, calls), 0.0) for calls in (4, 24)]
    return Evidence(PLAN, tuple(made), FILLS)


def test_the_best_so_far_is_beaten_equalled_or_not_in_the_same_interleaving():
    assert decide_over_incumbent(with_incumbent(25.0, 20.0)).kind is FASTER
    assert decide_over_incumbent(with_incumbent(20.0, 20.0)).equivalent is True
    assert decide_over_incumbent(with_incumbent(16.0, 20.0)).kind is SLOWER
    assert decide(with_incumbent(16.0, 20.0)).kind is FASTER
    assert decide_over_incumbent(evidence(quiet(36, 3), quiet(12, 3), fresh(36, 12))) is None


def test_a_candidate_that_is_not_faster_has_no_standing_against_the_best_so_far():
    assert decide_over_incumbent(dataclasses.replace(with_incumbent(25.0, 20.0), faults=(FORGED,))) is None
    assert decide_over_incumbent(with_incumbent(40.0, 36.0)) is None
