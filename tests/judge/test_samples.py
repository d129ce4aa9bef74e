"""Batches become times per call, and times become pairs: what drops out, what counts, what is left out."""

from __future__ import annotations

import dataclasses
import math
import statistics

import pytest
from handmade import CHECK_US, FILLS, PLAN, batches_of, span

from hotkernel.judge import samples
from hotkernel.judge.samples import fill_us, measurement_of, pairs_of, resolution_of, values_of
from hotkernel.schema.verdict import Batch, Fill, Side, Stage, Value

BASE, CAND, BEST = Side.BASELINE, Side.CANDIDATE, Side.INCUMBENT


def pair(base=(36.0,) * 8, cand=(30.0,) * 8, **more):
    return batches_of(Stage.LOOK, 0, {BASE: base, CAND: cand, **more})


def changed(batches, where, **changes):
    return [dataclasses.replace(batch, **changes) if where(batch) else batch for batch in batches]


def times(values, side):
    return [value.us for value in values if value.side is side]


def test_gate_flush_and_fill_drop_out_of_a_time_per_call():
    values = values_of(PLAN, pair(), FILLS)

    assert times(values, BASE) == pytest.approx([36.0] * 8)
    assert times(values, CAND) == pytest.approx([30.0] * 8)


def test_counts_drawn_around_the_plan_give_the_same_time():
    drawn = [Batch(BASE, Stage.LOOK, 0, 0, calls, span(36.0, calls), 0.0) for calls in (27, 3)]
    drawn += [Batch(CAND, Stage.LOOK, 0, 0, calls, span(30.0, calls), 0.0) for calls in (5, 22)]

    assert [value.us for value in values_of(PLAN, drawn, FILLS)] == pytest.approx([36.0, 30.0])


def test_a_fill_that_was_not_measured_lies_on_the_line_through_its_neighbours():
    fills = [Fill(4, 76.0), Fill(4, 78.0), Fill(4, 500.0), Fill(24, 256.0)]

    assert fill_us(fills, 4) == 78.0
    assert fill_us(fills, 14) == pytest.approx(167.0)
    assert fill_us(fills, 26) == pytest.approx(273.8)
    assert fill_us([], 4) == 0.0
    with pytest.raises(ValueError, match="4 slots do not say what 24"):
        fill_us([Fill(4, 76.0)], 24)


def test_where_memory_holds_one_count_an_empty_workers_batch_is_taken_off():
    plan = dataclasses.replace(PLAN, n1=0, n2=1)
    single = [Batch(side, Stage.LOOK, 0, 0, 1, 120.0 + us, 0.0) for side, us in ((BASE, 500.0), (CAND, 400.0))]

    assert [value.us for value in values_of(plan, single, [Fill(1, 120.0)])] == [500.0, 400.0]


@pytest.mark.parametrize("change", [{"void": "canary off by 3 %"}, {"throttle_mask": 0x40}, {"throttle_mask": 0x80}])
def test_a_void_batch_takes_its_partner_with_it(change):
    batches = changed(pair(), lambda b: b.value == 2 and b.side is CAND and b.calls == 4, **change)
    values = values_of(PLAN, batches, FILLS)

    assert sorted({value.value for value in values}) == [0, 1, 3, 4, 5, 6, 7]
    assert len(times(values, BASE)) == len(times(values, CAND)) == 7
    assert pairs_of(PLAN, values)[0].values == 7


def test_the_software_power_cap_is_steady_state_and_drops_nothing():
    assert len(values_of(PLAN, changed(pair(), lambda _: True, throttle_mask=0x4 | 0x1), FILLS)) == 16


def test_a_repeat_under_the_same_number_counts_and_the_void_attempt_does_not():
    good = [batch for batch in pair() if batch.value == 3]
    for broken in range(4):
        attempt = [dataclasses.replace(batch, span_us=batch.span_us * 3) for batch in good[: broken + 1]]
        attempt[broken] = dataclasses.replace(attempt[broken], void="another process on the card")

        values = values_of(PLAN, [*attempt, *good], FILLS)

        assert times(values, BASE) == pytest.approx([36.0])
        assert times(values, CAND) == pytest.approx([30.0])


def test_a_value_that_was_broken_off_counts_on_no_side():
    assert values_of(PLAN, pair()[:-1], FILLS) == values_of(PLAN, pair()[:-4], FILLS)


def test_a_void_incumbent_takes_the_other_two_sides_with_it_and_pairs_name_their_sides():
    batches = pair(**{BEST: (33.0,) * 8})
    values = values_of(PLAN, changed(batches, lambda b: b.side is BEST and b.value == 0, void="canary"), FILLS)

    assert [len(times(values, side)) for side in (BASE, CAND, BEST)] == [7, 7, 7]
    assert pairs_of(PLAN, values)[0].log_ratio == pytest.approx(math.log(36 / 30))
    assert pairs_of(PLAN, values, over=BEST)[0].log_ratio == pytest.approx(math.log(33 / 30))


def test_drift_that_both_sides_share_leaves_the_pair_as_it_is():
    drift = [1 + 0.01 * place for place in range(8)]

    values = values_of(PLAN, pair([36 * d for d in drift], [30 * d for d in drift]), FILLS)

    assert pairs_of(PLAN, values)[0].log_ratio == pytest.approx(math.log(36 / 30))


def test_two_wild_values_of_eight_move_a_pair_by_nothing():
    calm = pairs_of(PLAN, values_of(PLAN, pair(), FILLS))[0]
    wild = pairs_of(PLAN, values_of(PLAN, pair(base=(900.0, *(36.0,) * 6, 300.0)), FILLS))[0]

    assert wild.log_ratio == pytest.approx(calm.log_ratio)


def test_the_error_of_a_trimmed_mean_is_the_mean_s_own_where_nothing_is_trimmed():
    three = [1.0, 2.0, 6.0]

    assert samples.trimmed_mean(three) == 3.0
    assert samples.trimmed_error(three) == pytest.approx(statistics.stdev(three) / math.sqrt(3))
    assert samples.trimmed_error([1.0]) is None


def test_the_clocks_tick_is_in_a_pairs_error_even_where_its_values_agree():
    coarse = dataclasses.replace(PLAN, tick_us=20.0)  # 1 us a call

    exact = pairs_of(coarse, values_of(coarse, pair(), FILLS))[0]

    assert exact.within_sd == pytest.approx(math.hypot(1 / 36, 1 / 30), rel=1e-6)
    assert pairs_of(dataclasses.replace(PLAN, tick_us=0.0), values_of(PLAN, pair()[:4], FILLS))[0].within_sd is None


def test_a_time_at_or_below_zero_still_makes_a_pair():
    values = [Value(side, Stage.LOOK, 0, 0, us) for side, us in ((BASE, 36.0), (CAND, -0.2))]

    assert pairs_of(PLAN, values)[0].log_ratio == pytest.approx(math.log(36.0 / samples.SMALLEST_US))


# Work put off, and short batches slowed down ------------------------------------------------------------------------


def test_work_put_off_beyond_done_is_charged_to_the_side_that_put_it_off():
    put_off = changed(pair(cand=(6.0,) * 8), lambda b: b.side is CAND, check_us=None)
    put_off = [dataclasses.replace(b, check_us=(CHECK_US + 24.0) * b.calls) if b.side is CAND else b for b in put_off]

    values = values_of(PLAN, put_off, FILLS)

    assert times(values, CAND) == pytest.approx([30.0] * 8)  # the check's own 7 us are nobody's work
    assert times(values, BASE) == pytest.approx([36.0] * 8)


def test_a_check_that_differs_within_its_own_noise_changes_nothing():
    wobble = [0.05, -0.04, 0.06, -0.05, 0.03, -0.06, 0.04, -0.03]
    uneven = [
        dataclasses.replace(b, check_us=(CHECK_US + wobble[(b.value + 3 * (b.side is CAND)) % 8]) * b.calls)
        for b in pair()
    ]

    assert values_of(PLAN, uneven, FILLS) == values_of(PLAN, pair(), FILLS)


def test_without_times_of_the_check_nothing_is_moved():
    untimed = changed(pair(), lambda _: True, check_us=None)

    assert times(values_of(PLAN, untimed, FILLS), CAND) == pytest.approx([30.0] * 8)


def test_a_side_that_slows_its_short_batches_down_shows_no_gain_in_the_long_ones():
    slowed = changed(pair(cand=(36.0,) * 8), lambda b: b.side is CAND and b.calls == 4, span_us=span(36.0, 4) + 200)

    cheat = pairs_of(PLAN, values_of(PLAN, slowed, FILLS))[0]
    honest = pairs_of(PLAN, values_of(PLAN, pair(), FILLS))[0]

    assert cheat.log_ratio == pytest.approx(math.log(36 / 26))
    assert cheat.long_log_ratio == pytest.approx(0.0, abs=1e-9)
    assert honest.long_log_ratio == pytest.approx(honest.log_ratio)


# Measurements and the resolution ------------------------------------------------------------------------------------


def test_a_measurement_is_in_ms_and_its_deviation_is_a_samples():
    values = values_of(PLAN, pair(base=(36.0, 37.0, 38.0)), FILLS[:2])[:6]

    found = measurement_of(values, BASE)

    assert found.n == 3
    assert found.mean_ms == pytest.approx(0.037)
    assert found.std_ms == pytest.approx(0.001)
    assert (found.min_ms, found.median_ms, found.max_ms) == pytest.approx((0.036, 0.037, 0.038))
    assert found.samples == pytest.approx((0.036, 0.037, 0.038))
    assert measurement_of(values, BASE, stage=Stage.CONFIRMATION) is None
    assert samples.measure([1.0]).std_ms is None


def test_the_resolution_shrinks_with_pairs_and_never_below_what_single_values_explain():
    alternating = [36.18, 35.82] * 4  # the spread of one value on an H200

    def run(pairs, offset=0.0):
        return [
            Value(BASE, Stage.LOOK, pair, number, us + offset * (pair % 2))
            for pair in range(pairs)
            for number, us in enumerate(alternating)
        ]

    one, four = resolution_of(PLAN, run(1)), resolution_of(PLAN, run(4))

    assert one.one_value_us == pytest.approx(0.18 * math.sqrt(8 / 7))
    assert one.us == pytest.approx(2.5758 * one.one_value_us * math.sqrt(2 / 8), rel=1e-4)
    assert one.pct == pytest.approx(100 * one.us / 36)
    assert four.us == pytest.approx(one.us / 2)
    assert resolution_of(PLAN, run(4, offset=0.3)).us > 1.5 * four.us  # processes differ by more than their values
    assert resolution_of(PLAN, run(1)[:1]) is None
    assert resolution_of(PLAN, []) is None
