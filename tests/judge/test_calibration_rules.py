"""What calibrate measures and what it makes of the readings: curves, rates, noise, an error, and refusals."""

from __future__ import annotations

import dataclasses
import math

import pytest
import readings_by_hand as hand

from hotkernel.judge import calibration as judge
from hotkernel.judge import gpu_specs, roofline
from hotkernel.schema.calibration import Readings
from hotkernel.schema.plain import from_plain
from hotkernel.schema.roofline import Calibration, Figure, GpuSpec

H200 = gpu_specs.table()["h200sxm"]
UNKNOWN = GpuSpec("", "a card nobody knows", None)


def readings(**changed) -> Readings:
    return from_plain(Readings, hand.readings(**changed))


def test_the_plan_goes_from_the_cache_size_to_far_beyond_eight_times_it():
    full, quick = judge.plan(False), judge.plan(True)

    assert full.l2_multiples[0] == 1
    assert {2, 4, 8} < set(full.l2_multiples)
    assert full.l2_multiples[-1] > 8
    assert set(quick.l2_multiples) < set(full.l2_multiples)
    assert quick.l2_multiples[-1] == full.l2_multiples[-1], "the physical floor is the highest point, quick or not"
    assert max(full.l2_fractions) <= 0.5, "source and destination must both stay in the cache"
    assert set(quick.matrix) < set(full.matrix)


def test_a_point_is_the_median_of_the_better_kernel():
    points = {(point.operation, point.moved_bytes): point for point in judge.points(readings(), H200)}
    largest = points["copy", 32 * hand.L2_BYTES]

    assert largest.kernel == "triton"
    assert largest.gbps == pytest.approx(32 * hand.L2_BYTES / (32 * hand.L2_BYTES / 4300e3 + 1.0) / 1e3)
    assert largest.sheet_pct == pytest.approx(100 * largest.gbps / 4800)
    assert largest.spread_pct == pytest.approx(100 * 1.4826 * 0.001)
    assert len(points) == 24


def test_the_curves_rise_in_size_and_are_what_the_roofline_reads():
    curves = judge.curves(judge.points(readings(), H200))
    calibration = Calibration("NVIDIA H200", "GPU-1", "580", 700.0, "2026-11-30", curves, 1.0)

    assert set(curves) == set(roofline.READ_SHARES)
    for points in curves.values():
        assert [point.moved_bytes for point in points] == sorted(point.moved_bytes for point in points)
    at_64_mib = roofline.ceiling_gbps(calibration, 134_217_728, 0.5)
    assert 3900 < at_64_mib < 4300
    assert roofline.highest_gbps(calibration) == pytest.approx(4670, rel=0.01)


def test_a_kernel_without_a_sensible_time_is_left_out():
    broken = [{"operation": "read", "kernel": "torch", "moved_bytes": 1 << 28, "us": [-1.0, 0.0, 5.0]},
              {"operation": "read", "kernel": "triton", "moved_bytes": 1 << 28, "us": []}]

    assert judge.points(readings(bandwidth=broken), H200) == ()


def test_a_card_without_a_sheet_has_points_without_a_share():
    assert all(point.sheet_pct is None for point in judge.points(readings(), UNKNOWN))
    assert judge.objection(judge.points(readings(scale=10), UNKNOWN), UNKNOWN, 1.0) is None


def test_the_error_is_never_nothing_and_grows_with_spread_and_noise():
    points = judge.points(readings(), H200)
    exact = [dataclasses.replace(point, spread_pct=0.0) for point in points]
    wild = [*exact[1:], dataclasses.replace(exact[0], spread_pct=5.0)]

    assert judge.error_pct(exact, 0.0) == judge.ERROR_LEAST_PCT
    assert judge.error_pct(exact, 0.4) == pytest.approx(1.2)
    assert judge.error_pct(exact, None) == pytest.approx(3 * judge.NOISE_UNMEASURED_PCT)
    assert judge.error_pct(wild, 0.0) == pytest.approx(3 * 1.2533 * 5.0 / math.sqrt(5))
    assert judge.error_pct([dataclasses.replace(points[0], spread_pct=900.0)], 0.0) < 100


def test_noise_is_the_distance_of_equal_processes_and_not_their_spread_about_a_mean():
    rows = judge.noise_rows(readings(apart=0.01).noise)

    assert [row.kernel for row in rows] == ["clone", "softmax", "mv", "mm"]
    assert all(row.noise_pct == pytest.approx(1.0) for row in rows)
    assert all(row.within_pct == pytest.approx(0.148, abs=0.001) for row in rows)
    assert judge.aa_noise_pct(rows) == pytest.approx(1.0)
    assert judge.aa_noise_pct(()) is None


def test_a_pair_that_lost_a_side_says_nothing():
    half = [{"kernel": "clone", "pairs": [[[1.0, 1.0], []], [[1.0]]]}]

    assert judge.noise_rows(from_plain(Readings, {"device": "cuda", "noise": half}).noise) == ()


def test_a_matrix_rate_is_that_of_the_best_size_and_what_is_left_of_it():
    rows = {row.dtype: row for row in judge.matrix_rows(readings(), H200)}

    assert rows["bf16"].size == 8192
    assert rows["bf16"].burst_tflops == pytest.approx(2 * 8192**3 / 1400e6)
    assert rows["bf16"].sustained_tflops == pytest.approx(2 * 8192**3 / 1600e6), "the second half of the stretch"
    assert rows["fp32"].sustained_tflops is None
    assert judge.rates(list(rows.values()))["bf16"].burst_tflops == rows["bf16"].burst_tflops


def test_the_launch_gap_the_event_and_the_host_are_told_apart():
    gap_us, event_us, host_us = judge.launches(readings().launch)

    assert (gap_us, event_us, host_us) == pytest.approx((1.5, 0.8, 3.0))
    assert judge.launches(None) == (None, None, None)


def test_an_event_that_costs_nothing_to_be_seen_is_unknown_and_not_zero():
    hidden = {"gap_us": [2.0, 2.0], "with_event_us": [1.9, 1.9], "host_us": [1.0]}

    assert judge.launches(readings(launch=hidden).launch)[1] is None


def test_more_than_the_data_sheet_is_refused():
    fast = judge.points(readings(scale=0.9), H200)

    said = judge.objection(fast, H200, 1.0)

    assert said is not None
    assert "a cache posed as memory" in said
    assert judge.objection(judge.points(readings(), H200), H200, 1.0) is None


def test_far_less_than_the_data_sheet_is_refused_as_it_would_make_honest_records_impossible():
    slow = judge.points(readings(scale=2.0), H200)

    assert "something else used the card" in str(judge.objection(slow, H200, 1.0))


def test_no_reading_and_a_wild_one_are_refused():
    assert judge.objection((), H200, 1.0) == "no bandwidth could be read"
    assert "uncertain by 30 %" in str(judge.objection(judge.points(readings(), H200), H200, 30.0))


def test_remarks_name_what_is_missing_and_what_is_odd():
    asked = judge.plan(False)
    found = readings(refused={"fp8": "no kernel for sm_70"}, triton=None)
    rows = judge.matrix_rows(found, dataclasses.replace(H200, tflops={"bf16": Figure(500.0, "a sheet")}))
    said = " | ".join(judge.remarks(found, asked, rows, dataclasses.replace(H200, tflops={"bf16": Figure(500.0, "a sheet")})))

    assert "fp8 was not measured: no kernel for sm_70" in said
    assert "no Triton" in said
    assert "157 % of its data sheet (a sheet)" in said
    assert "power limit" in said


def test_a_curve_that_memory_cut_short_says_so():
    short = [each for each in hand.readings()["bandwidth"] if each["moved_bytes"] <= 4 * hand.L2_BYTES]

    assert "the curve ends early" in " ".join(judge.remarks(readings(bandwidth=short), judge.plan(False), (), H200))
    assert judge.remarks(readings(), judge.plan(False), (), H200) == ()
