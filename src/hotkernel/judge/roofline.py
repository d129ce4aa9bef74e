"""Holds a kernel's flops and bytes against a card's roofs, by the data sheet and as calibrated; pure arithmetic."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from hotkernel.schema.roofline import (
    BandwidthPoint,
    Bound,
    Calibration,
    Figure,
    GpuSpec,
    MeasuredPeaks,
    Roofline,
)

# The share of its traffic that each calibrated operation reads: a fill none, b = a half, a = b + s*c two thirds.
READ_SHARES = {"write": 0.0, "copy": 0.5, "triad": 2 / 3, "read": 1.0}
DTYPES_OF_TORCH = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64", "int8": "int8"}


def roofline(
    spec: GpuSpec, flops: float | None, bytes_: float | None, dtype: str, measured: MeasuredPeaks | None = None
) -> Roofline:
    """Where a kernel of `flops` and `bytes_` stands; either may be None, and what needs it is then None."""
    peak, bandwidth = spec.tflops.get(dtype), spec.bandwidth_gbps
    peak_tflops, peak_gbps = _value(peak), _value(bandwidth)
    real_tflops = measured.tflops if measured else None
    real_gbps = measured.bandwidth_gbps if measured else None
    intensity = flops / bytes_ if flops and bytes_ else None
    ridge = _ridge(peak_tflops, peak_gbps)
    bound = _bound(flops, bytes_, intensity, ridge)
    attainable_ms = _attainable_ms(flops, bytes_, peak_tflops, peak_gbps)
    return Roofline(
        gpu=spec.name,
        key=spec.key,
        dtype=dtype,
        flops=flops,
        bytes=bytes_,
        intensity_flop_per_byte=intensity,
        ridge_flop_per_byte=ridge,
        bound=bound,
        attainable_tflops=flops / attainable_ms / 1e9 if flops and attainable_ms else None,
        attainable_ms=attainable_ms,
        attainable_ms_measured=_measured_ms(flops, bytes_, peak_tflops, real_tflops, real_gbps),
        ridge_flop_per_byte_measured=_ridge(real_tflops or peak_tflops, real_gbps),
        peak_tflops=peak_tflops,
        peak_bandwidth_gbps=peak_gbps,
        measured_tflops=real_tflops,
        measured_bandwidth_gbps=real_gbps,
        sources=_sources(peak, bandwidth, measured),
        worked_out=any(figure.source.startswith("worked out") for figure in (peak, bandwidth) if figure),
        notes=(*spec.notes, *_gaps(spec, dtype, peak, bandwidth)),
    )


def ceiling_gbps(calibration: Calibration, moved_bytes: float, read_share: float | None) -> float | None:
    """The bandwidth this card reaches over so many bytes of which so large a share is read.

    Between measured sizes and shares the curve is straight (in the logarithm of bytes); above the largest size it is
    flat; below the smallest there is none, for there a kernel lives in the cache. Without a share: the best operation.
    """
    reached = {share: gbps for operation, share in READ_SHARES.items()
               if (gbps := _at(calibration.curves.get(operation, ()), moved_bytes)) is not None}
    if not reached:
        return None
    if read_share is None:
        return max(reached.values())
    return _between(sorted(reached.items()), min(1.0, max(0.0, read_share)))


def ceiling_us(calibration: Calibration, moved_bytes: float, read_share: float, flops: float | None,
               dtype: str | None) -> tuple[float, Bound] | None:
    """The shortest time that this card was measured to need for such a call, and for what; None where it is not known.

    Arithmetic is the limit where it takes longer at the calibrated matrix rate than the bytes do. What is too small for the
    curves may live in the cache, so that its bytes take less than at their highest point, and nobody knows how much less.
    """
    gbps, rate = ceiling_gbps(calibration, moved_bytes, read_share), calibration.matrix.get(dtype or "")
    computing = flops / rate.burst_tflops / 1e6 if flops and rate else 0.0
    moving = moved_bytes / (gbps or highest_gbps(calibration)) / 1e3
    if computing > moving:
        return computing, Bound.COMPUTE
    return (moving, Bound.MEMORY) if gbps and moved_bytes else None


def highest_gbps(calibration: Calibration) -> float:
    """The highest point of any curve."""
    return max(point.gbps for points in calibration.curves.values() for point in points)


def floor_us(calibration: Calibration | None, moved_bytes: float) -> float | None:
    """The time below which no honest kernel can move so many bytes; None without a calibration.

    Bytes alone over the highest point, less the calibration's own error: nominal flops may be more than are needed.
    """
    if calibration is None:
        return None
    return moved_bytes / highest_gbps(calibration) / 1e3 * (1 - calibration.error_pct / 100)


def measured_peaks(
    calibration: Calibration, moved_bytes: float | None, read_share: float | None, dtype: str
) -> MeasuredPeaks:
    """The calibrated roofs for one kernel: at its own bytes where they are known, else the highest of each."""
    rate = calibration.matrix.get(dtype)
    gbps = highest_gbps(calibration) if moved_bytes is None else ceiling_gbps(calibration, moved_bytes, read_share)
    return MeasuredPeaks(gbps, rate.burst_tflops if rate else None,
                         f"this card's calibration of {calibration.made_at}, driver {calibration.driver}")


def _attainable_ms(flops: float | None, bytes_: float | None, tflops: float | None, gbps: float | None) -> float | None:
    """The longer of computing and moving; None when a roof that counts is unknown."""
    parts = []
    for amount, rate in ((flops, tflops and tflops * 1e9), (bytes_, gbps and gbps * 1e6)):
        if amount is not None and amount > 0:
            if not rate:
                return None
            parts.append(amount / rate)
    return max(parts) if parts else None


def _measured_ms(
    flops: float | None, bytes_: float | None, peak: float | None, tflops: float | None, gbps: float | None
) -> float | None:
    """As measured; where only the bandwidth was, the data sheet stands in for the rate, as it can only be too fast."""
    if tflops is None and gbps is None:
        return None
    return _attainable_ms(flops, bytes_, tflops or peak, gbps)


def _bound(flops: float | None, bytes_: float | None, intensity: float | None, ridge: float | None) -> Bound | None:
    if flops == 0 and bytes_:
        return Bound.MEMORY
    if bytes_ == 0 and flops:
        return Bound.COMPUTE
    if intensity is None or ridge is None:
        return None
    return Bound.MEMORY if intensity < ridge else Bound.COMPUTE


def _ridge(tflops: float | None, gbps: float | None) -> float | None:
    return tflops * 1e3 / gbps if tflops and gbps else None


def _sources(peak: Figure | None, bandwidth: Figure | None, measured: MeasuredPeaks | None) -> dict[str, str]:
    figures = {"peak_tflops": peak, "peak_bandwidth_gbps": bandwidth}
    sources = {name: figure.source + (f" ({figure.note})" if figure.note else "")
               for name, figure in figures.items() if figure}
    if measured and measured.tflops:
        sources["measured_tflops"] = measured.source
    if measured and measured.bandwidth_gbps:
        sources["measured_bandwidth_gbps"] = measured.source
    return sources


def _gaps(spec: GpuSpec, dtype: str, peak: Figure | None, bandwidth: Figure | None) -> list[str]:
    gaps = [] if peak else [f"no peak rate is known for {dtype} on {spec.name}: its hardware has none, or nobody says"]
    return gaps if bandwidth else [*gaps, f"no peak bandwidth is known for {spec.name}"]


def _at(points: Sequence[BandwidthPoint], moved_bytes: float) -> float | None:
    """One operation's curve at `moved_bytes`."""
    rising = sorted((point.moved_bytes, point.gbps) for point in points)
    if not rising or moved_bytes < rising[0][0]:
        return None
    return _between([(math.log(size), gbps) for size, gbps in rising], math.log(moved_bytes))


def _between(knots: Sequence[tuple[float, float]], x: float) -> float:
    """Straight lines between rising knots, flat beyond the last and before the first."""
    for (left, low), (right, high) in itertools.pairwise(knots):
        if x <= right:
            return low if x <= left else low + (high - low) * (x - left) / (right - left)
    return knots[-1][1] if x >= knots[-1][0] else knots[0][1]


def _value(figure: Figure | None) -> float | None:
    return figure.value if figure else None
