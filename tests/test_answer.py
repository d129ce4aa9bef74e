"""What a comparison says beside its measurements: the share of the card's ceiling at a call's own bytes and reads."""

from __future__ import annotations

import pytest

from hotkernel.answer import ceiling_share_pct
from hotkernel.schema.roofline import BandwidthPoint, Calibration
from hotkernel.schema.verdict import Measurement

MB = 1_000_000
CURVES = {"write": (BandwidthPoint(MB, 5000.0),), "copy": (BandwidthPoint(MB, 4000.0),), "read": (BandwidthPoint(MB, 4500.0),)}
CARD = Calibration("g", "u", "d", None, "2026-11-30T12:00:00+00:00", CURVES, error_pct=1.0)


def share(streamed: int, output: int, moved: int, ms: float) -> float | None:
    measured = Measurement(n=2, mean_ms=ms, std_ms=0.0, min_ms=ms, max_ms=ms, median_ms=ms, samples=(ms, ms))
    return ceiling_share_pct(CARD, {"streamed_bytes": streamed, "output_bytes": output, "min_bytes": moved}, measured)


def test_a_kernel_that_reads_what_it_writes_is_held_against_a_copy():
    assert share(100 * MB, 100 * MB, 200 * MB, 0.05) == pytest.approx(100.0)


def test_what_a_target_declares_beyond_its_streams_is_read():
    assert share(100 * MB, 200 * MB, 400 * MB, 0.1) == pytest.approx(100.0)  # a residual, added to in place: half is read


def test_a_target_that_declares_less_than_its_streams_is_held_at_their_mix():
    assert share(100 * MB, 100 * MB, 100 * MB, 0.025) == pytest.approx(100.0)  # of a gather not all is touched
