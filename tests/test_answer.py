"""What a comparison says beside its measurements: the share of the card's ceiling, of its bandwidth or its arithmetic."""

from __future__ import annotations

import pytest

from hotkernel.answer import ceiling
from hotkernel.schema.roofline import BandwidthPoint, Bound, Calibration, MatrixRate
from hotkernel.schema.verdict import Measurement

MB = 1_000_000
CURVES = {"write": (BandwidthPoint(MB, 5000.0),), "copy": (BandwidthPoint(MB, 4000.0),), "read": (BandwidthPoint(MB, 4500.0),)}
CARD = Calibration("g", "u", "d", None, "2026-11-30T12:00:00+00:00", CURVES, matrix={"bf16": MatrixRate(800.0)}, error_pct=1.0)


def reached(streamed: int, output: int, moved: int, ms: float, flops: float | None = None,
            dtype: str = "torch.bfloat16") -> tuple[float | None, Bound | None]:
    measured = Measurement(n=2, mean_ms=ms, std_ms=0.0, min_ms=ms, max_ms=ms, median_ms=ms, samples=(ms, ms))
    target = {"streamed_bytes": streamed, "output_bytes": output, "min_bytes": moved, "flops": flops, "dtype": dtype}
    found = ceiling(CARD, target, measured)
    return found.get("ceiling_share_pct"), found.get("ceiling_bound")


def share(streamed: int, output: int, moved: int, ms: float) -> float | None:
    found, bound = reached(streamed, output, moved, ms)
    assert bound is Bound.MEMORY
    return found


def test_a_kernel_that_reads_what_it_writes_is_held_against_a_copy():
    assert share(100 * MB, 100 * MB, 200 * MB, 0.05) == pytest.approx(100.0)


def test_what_a_target_declares_beyond_its_streams_is_read():
    assert share(100 * MB, 200 * MB, 400 * MB, 0.1) == pytest.approx(100.0)  # a residual, added to in place: half is read


def test_a_target_that_declares_less_than_its_streams_is_held_at_their_mix():
    assert share(100 * MB, 100 * MB, 100 * MB, 0.025) == pytest.approx(100.0)  # of a gather not all is touched


@pytest.mark.parametrize(("flops", "expected"), [
    (None, (50.0, Bound.MEMORY)),
    (39e9, (50.0, Bound.MEMORY)),  # 48.75 us at the matrix rate, where the bytes take 50
    (64e9, (80.0, Bound.COMPUTE)),
])
def test_the_roof_is_that_which_takes_longer(flops, expected):
    assert reached(100 * MB, 100 * MB, 200 * MB, 0.1, flops) == (pytest.approx(expected[0]), expected[1])


def test_arithmetic_whose_rate_was_not_measured_is_no_roof():
    assert reached(100 * MB, 100 * MB, 200 * MB, 0.1, 64e9, "torch.float16") == (pytest.approx(50.0), Bound.MEMORY)


def test_calls_too_small_for_the_curves_have_no_roof_unless_their_arithmetic_takes_longer_than_any_memory_would():
    assert reached(MB // 4, MB // 4, MB // 2, 0.001, 64e6) == (None, None)
    assert reached(MB // 4, MB // 4, MB // 2, 0.001, 640e6) == (pytest.approx(80.0), Bound.COMPUTE)
