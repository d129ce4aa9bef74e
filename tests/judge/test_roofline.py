"""The roofline's arithmetic, the calibrated curve, the floor, and the plot."""

from __future__ import annotations

import pytest

from hotkernel.judge import gpu_specs
from hotkernel.judge.roofline import ceiling_gbps, floor_us, highest_gbps, measured_peaks, roofline
from hotkernel.schema.plain import from_plain, to_plain
from hotkernel.schema.roofline import (
    BandwidthPoint,
    Bound,
    Calibration,
    Figure,
    GpuSpec,
    MatrixRate,
    MeasuredPeaks,
    Roofline,
)

H200 = gpu_specs.table()["h200sxm"]
MIB = 1 << 20
RMSNORM_BYTES = 2 * 4096 * 8192 * 2  # one read, one write, bf16


def curve(*points: tuple[int, float]) -> tuple[BandwidthPoint, ...]:
    return tuple(BandwidthPoint(mib * MIB, gbps) for mib, gbps in points)


CALIBRATION = Calibration(  # the figures of an H200: docs/timing.md
    gpu="NVIDIA H200", gpu_uuid="GPU-1", driver="580.159.04", power_limit_w=700.0, made_at="2026-11-30T12:00:00+00:00",
    curves={
        "read": curve((128, 3800.0), (2048, 4320.0)),
        "write": curve((128, 4500.0), (2048, 4680.0)),
        "copy": curve((128, 3900.0), (2048, 4300.0)),
        "triad": curve((128, 3850.0), (2048, 4360.0)),
    },
    error_pct=1.0, matrix={"bf16": MatrixRate(790.0, 700.0)}, launch_gap_us=1.0)


def test_a_memory_bound_kernel_takes_its_bytes_over_the_bandwidth():
    result = roofline(H200, 4 * 4096 * 8192, RMSNORM_BYTES, "bf16")

    assert result.bound is Bound.MEMORY
    assert result.attainable_ms == pytest.approx(RMSNORM_BYTES / 4800e9 * 1e3)
    assert result.attainable_tflops == pytest.approx(4 * 4096 * 8192 / (RMSNORM_BYTES / 4800e9) / 1e12)
    assert result.intensity_flop_per_byte == pytest.approx(1.0)
    assert result.attainable_ms_measured is None


def test_a_compute_bound_kernel_takes_its_flops_over_the_rate():
    result = roofline(H200, 2 * 8192**3, 3 * 2 * 8192**2, "bf16")

    assert result.bound is Bound.COMPUTE
    assert result.attainable_tflops == pytest.approx(989.5)
    assert result.attainable_ms == pytest.approx(2 * 8192**3 / 989.5e12 * 1e3)


def test_the_ridge_is_where_both_roofs_take_the_same_time():
    ridge = roofline(H200, None, None, "bf16").ridge_flop_per_byte
    assert ridge == pytest.approx(989.5e12 / 4800e9)

    at_ridge = roofline(H200, ridge * 1e9, 1e9, "bf16")
    assert at_ridge.attainable_ms == pytest.approx(1e9 / 4800e9 * 1e3)
    assert at_ridge.attainable_tflops == pytest.approx(989.5)
    assert roofline(H200, ridge * 0.99e9, 1e9, "bf16").bound is Bound.MEMORY
    assert roofline(H200, ridge * 1.01e9, 1e9, "bf16").bound is Bound.COMPUTE


def test_every_peak_comes_with_its_source():
    measured = MeasuredPeaks(4300.0, 790.0, "this card's calibration")
    result = roofline(H200, 1e9, 1e9, "bf16", measured)

    assert set(result.sources) == {"peak_tflops", "peak_bandwidth_gbps", "measured_tflops", "measured_bandwidth_gbps"}
    assert "nvidia.com/en-us/data-center/h200" in result.sources["peak_tflops"]
    assert "half of 1,979 with sparsity" in result.sources["peak_tflops"]
    assert result.sources["measured_tflops"] == "this card's calibration"


def test_without_flops_or_bytes_there_are_the_roofs_and_no_time():
    result = roofline(H200, None, None, "fp8")

    assert result.peak_tflops == 1979.0
    assert (result.bound, result.attainable_ms, result.attainable_tflops, result.intensity_flop_per_byte) == (None,) * 4


def test_bytes_alone_give_a_time_but_no_bound():
    result = roofline(H200, None, 4.8e9, "bf16")

    assert result.attainable_ms == pytest.approx(1.0)
    assert result.bound is None
    assert result.attainable_tflops is None


def test_a_copy_with_no_flops_is_bound_by_memory():
    result = roofline(H200, 0, 4.8e9, "bf16")

    assert (result.bound, result.attainable_ms) == (Bound.MEMORY, pytest.approx(1.0))


def test_a_dtype_that_the_card_lacks_is_null_with_a_note_and_never_a_guess():
    result = roofline(gpu_specs.table()["t4"], 1e9, 1e9, "fp4")

    assert result.peak_tflops is None
    assert result.attainable_ms is None
    assert result.bound is None
    assert "fp4" in result.notes[-1]


def test_a_peak_that_was_worked_out_says_so():
    spec = GpuSpec("", "a card", "8.6", {"bf16": Figure(100.0, "worked out from 80 multiprocessors")},
                   Figure(600.0, "worked out from a bus"))

    assert roofline(spec, 1e9, 1e9, "bf16").worked_out
    assert not roofline(H200, 1e9, 1e9, "bf16").worked_out


def test_the_measured_time_uses_the_measured_roofs():
    memory = roofline(H200, 1e6, 4.3e9, "bf16", MeasuredPeaks(4300.0, 790.0, "x"))
    compute = roofline(H200, 790e12, 1e6, "bf16", MeasuredPeaks(4300.0, 790.0, "x"))

    assert memory.attainable_ms_measured == pytest.approx(1.0)
    assert compute.attainable_ms_measured == pytest.approx(1000.0)
    assert memory.ridge_flop_per_byte_measured == pytest.approx(790e3 / 4300)


def test_where_only_the_bandwidth_was_measured_the_data_sheets_rate_stands_in():
    result = roofline(H200, 989.5e12, 1e6, "bf16", MeasuredPeaks(4300.0, None, "x"))

    assert result.attainable_ms_measured == pytest.approx(1000.0)
    assert result.measured_tflops is None


def test_a_kernel_is_held_against_the_curve_at_its_own_bytes():
    assert ceiling_gbps(CALIBRATION, 128 * MIB, 0.5) == pytest.approx(3900)
    assert ceiling_gbps(CALIBRATION, 2048 * MIB, 0.5) == pytest.approx(4300)
    assert ceiling_gbps(CALIBRATION, 512 * MIB, 0.5) == pytest.approx(4100)  # half way in the logarithm
    assert ceiling_gbps(CALIBRATION, 99_999 * MIB, 0.5) == pytest.approx(4300)  # flat beyond the largest


def test_a_kernel_is_held_against_the_curve_at_its_own_read_share():
    shares = {share: ceiling_gbps(CALIBRATION, 2048 * MIB, share) for share in (0.0, 0.25, 0.5, 2 / 3, 1.0)}

    assert shares == pytest.approx({0.0: 4680, 0.25: 4490, 0.5: 4300, 2 / 3: 4360, 1.0: 4320})
    assert ceiling_gbps(CALIBRATION, 2048 * MIB, 1.7) == pytest.approx(4320)


def test_without_a_read_share_the_best_operation_counts():
    assert ceiling_gbps(CALIBRATION, 2048 * MIB, None) == 4680


def test_below_the_smallest_measured_size_there_is_no_ceiling():
    assert ceiling_gbps(CALIBRATION, 1 * MIB, 0.5) is None


def test_an_operation_that_was_not_measured_is_bridged_by_its_neighbours():
    half = Calibration("g", "u", "d", None, "2026-11-30T12:00:00+00:00",
                       {"read": curve((128, 4000.0)), "write": curve((128, 5000.0))}, error_pct=1.0)

    assert ceiling_gbps(half, 128 * MIB, 0.5) == pytest.approx(4500)


def test_the_floor_is_bytes_over_the_highest_point_less_the_error():
    assert highest_gbps(CALIBRATION) == 4680
    assert floor_us(CALIBRATION, RMSNORM_BYTES) == pytest.approx(RMSNORM_BYTES / 4680e9 * 1e6 * 0.99)
    assert floor_us(CALIBRATION, RMSNORM_BYTES) < 32  # the fastest such kernel on that card takes 35


def test_without_a_calibration_there_is_no_floor():
    assert floor_us(None, RMSNORM_BYTES) is None


def test_the_measured_peaks_of_a_kernel_are_at_its_bytes_and_of_no_kernel_the_highest():
    assert measured_peaks(CALIBRATION, 128 * MIB, 0.5, "bf16").bandwidth_gbps == pytest.approx(3900)
    assert measured_peaks(CALIBRATION, None, None, "bf16").bandwidth_gbps == 4680
    assert measured_peaks(CALIBRATION, None, None, "bf16").tflops == 790
    assert measured_peaks(CALIBRATION, None, None, "fp8").tflops is None


def test_a_figure_without_a_source_and_a_calibration_without_a_curve_cannot_be_built():
    with pytest.raises(ValueError, match="figure"):
        Figure(1.0, "")
    with pytest.raises(ValueError, match="figure"):
        Figure(0.0, "a document")
    with pytest.raises(ValueError, match="calibration"):
        Calibration("g", "u", "d", None, "2026-11-30", {"read": ()}, error_pct=1.0)
    with pytest.raises(ValueError, match="GB/s"):
        BandwidthPoint(1, -1.0)


def test_a_calibration_and_a_roofline_survive_json():
    result = roofline(H200, 1e9, 1e9, "bf16", measured_peaks(CALIBRATION, 128 * MIB, None, "bf16"))

    assert from_plain(Calibration, to_plain(CALIBRATION)) == CALIBRATION
    assert from_plain(Roofline, to_plain(result)) == result
