"""Says what calibrate measures, and makes curves, rates, noise and an error out of the readings; measures nothing."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from hotkernel.schema.calibration import (
    CalibrationPlan,
    CurvePoint,
    LaunchReading,
    MatrixRow,
    NoiseReading,
    NoiseRow,
    Reading,
    Readings,
)
from hotkernel.schema.roofline import BandwidthPoint, GpuSpec, MatrixRate

ERROR_LEAST_PCT = 0.5  # the clock's tick, a launch gap of a large copy, and what nobody thought of
NOISE_UNMEASURED_PCT = 0.5  # where processes could not be compared; six forks on an H200 lay within 0.7 %
SIGMAS = 3.0  # the error is a bound, not a standard deviation: a record below the physical floor is called invalid by it
MEDIAN_FACTOR = 1.2533  # the standard error of a median over that of a mean
ROBUST = 1.4826  # a normal variable's standard deviation over its median absolute deviation
LEAST_SHARE = 0.6  # of the data sheet's bandwidth; idle cards copy at 0.8 to 0.93 of it
MOST_ERROR_PCT = 10.0
MATRIX_MOST_SHARE = 1.1  # a data sheet's rate is at the boost clock, and a card's own may go higher
CAPPED_SHARE = 0.95


def plan(quick: bool) -> CalibrationPlan:
    """All of it, within a minute on an H200; or, in a quarter of that, three sizes and the commonest dtypes from rest."""
    if quick:
        return CalibrationPlan(
            l2_multiples=(2, 8, 32), l2_fractions=(0.5,), values=7, matrix=("bf16", "tf32", "fp32"),
            matrix_sizes=(4096, 8192), sustained_s=0.0, noise_pairs=2, noise_values=4)
    return CalibrationPlan(
        l2_multiples=(1, 1.5, 2, 4, 8, 16, 32), l2_fractions=(0.125, 0.25, 0.5), values=15,
        matrix=("bf16", "fp16", "tf32", "fp32", "fp64", "fp8", "int8"), matrix_sizes=(2048, 4096, 8192), sustained_s=2.0,
        noise_pairs=5, noise_values=8)


def points(readings: Readings, spec: GpuSpec) -> tuple[CurvePoint, ...]:
    """Each operation at each size, by the better of its kernels; a kernel without a sensible time is left out."""
    best: dict[tuple[str, int], CurvePoint] = {}
    for reading in readings.bandwidth:
        point = _point(reading, spec.bandwidth_gbps.value if spec.bandwidth_gbps else None)
        key = (reading.operation, reading.moved_bytes)
        if point and (key not in best or point.gbps > best[key].gbps):
            best[key] = point
    return tuple(best[key] for key in sorted(best))


def curves(found: Sequence[CurvePoint]) -> dict[str, tuple[BandwidthPoint, ...]]:
    """The points as curves, by operation, sizes rising."""
    by_operation: dict[str, list[CurvePoint]] = {}
    for point in found:
        by_operation.setdefault(point.operation, []).append(point)
    return {operation: tuple(BandwidthPoint(point.moved_bytes, point.gbps) for point in
                             sorted(of_one, key=lambda point: point.moved_bytes))
            for operation, of_one in by_operation.items()}


def l2_copy_gbps(readings: Readings) -> float | None:
    """The fastest copy that stays in the L2; its launch gaps are in it, as they are in a kernel's own time."""
    reached = [point.gbps for point in (_point(reading, None) for reading in readings.l2_copy) if point]
    return max(reached, default=None)


def noise_rows(readings: Iterable[NoiseReading]) -> tuple[NoiseRow, ...]:
    """How far equal processes lie apart, by kernel. The true difference is 0, so it is no mean that is subtracted."""
    rows = []
    for reading in readings:
        pairs = [[[us for us in side if us > 0] for side in pair] for pair in reading.pairs]
        whole = [pair for pair in pairs if len(pair) == 2 and all(pair)]
        if whole:
            ratios = [math.log(statistics.median(pair[0]) / statistics.median(pair[1])) for pair in whole]
            sides = [side for pair in whole for side in pair]
            rows.append(NoiseRow(
                kernel=reading.kernel, noise_pct=100 * _root_mean_square(ratios),
                within_pct=_root_mean_square([_spread_pct(side) for side in sides]), pairs=len(whole),
                us=statistics.median(us for side in sides for us in side)))
    return tuple(rows)


def aa_noise_pct(rows: Sequence[NoiseRow]) -> float | None:
    """The standard deviation between two equal, fresh processes, over all kernels; None where none was compared."""
    return _root_mean_square([row.noise_pct for row in rows]) if rows else None


def error_pct(found: Sequence[CurvePoint], noise_pct: float | None) -> float:
    """How far the bandwidths may be from what another process would read: the worst point's error and the A/A noise."""
    own = max((MEDIAN_FACTOR * point.spread_pct / math.sqrt(point.values) for point in found), default=0.0)
    between = NOISE_UNMEASURED_PCT if noise_pct is None else noise_pct
    return min(99.0, max(ERROR_LEAST_PCT, SIGMAS * math.hypot(own, between)))


def matrix_rows(readings: Readings, spec: GpuSpec) -> tuple[MatrixRow, ...]:
    """Each dtype at the size that is fastest from rest, with what is left of it after seconds on end."""
    best: dict[str, MatrixRow] = {}
    for reading in readings.matrix:
        us = _median(reading.burst_us)
        if us is None:
            continue
        work = 2.0 * reading.size**3 / 1e6
        settled = _median(reading.sustained_us[len(reading.sustained_us) // 2 :])
        sheet = spec.tflops.get(reading.dtype)
        row = MatrixRow(
            dtype=reading.dtype, burst_tflops=work / us, sustained_tflops=work / settled if settled else None,
            spread_pct=_spread_pct(reading.burst_us), sheet_pct=100 * work / us / sheet.value if sheet else None,
            size=reading.size)
        if reading.dtype not in best or row.burst_tflops > best[reading.dtype].burst_tflops:
            best[reading.dtype] = row
    return tuple(best.values())


def rates(rows: Sequence[MatrixRow]) -> dict[str, MatrixRate]:
    """The rows as the roofline uses them."""
    return {row.dtype: MatrixRate(row.burst_tflops, row.sustained_tflops) for row in rows}


def launches(reading: LaunchReading | None) -> tuple[float | None, float | None, float | None]:
    """us from one empty kernel to the next, us that an event adds, us of the host for one launch; None where unknown."""
    if reading is None:
        return None, None, None
    gap, both = _median(reading.gap_us), _median(reading.with_event_us)
    # where the front end hides the event behind the kernel there is nothing to tell from 0
    event = both - gap if gap is not None and both is not None and both > gap else None
    return gap, event, _median(reading.host_us)


def objection(found: Sequence[CurvePoint], spec: GpuSpec, error: float) -> str | None:
    """Why these bandwidths are not to be believed, or None. A wrong ceiling would call an honest record impossible."""
    if not found:
        return "no bandwidth could be read"
    sheet = spec.bandwidth_gbps
    top = max(found, key=lambda point: point.gbps)
    if sheet and top.gbps > sheet.value * (1 + error / 100):
        return (f"{top.operation} reads {top.gbps:.0f} GB/s, {100 * top.gbps / sheet.value:.0f} % of the {sheet.value:g} GB/s "
                f"of {sheet.source}: a cache posed as memory, or that figure is another card's; please report it")
    if sheet and top.gbps < LEAST_SHARE * sheet.value:
        return (f"the best reading is {top.gbps:.0f} GB/s, {100 * top.gbps / sheet.value:.0f} % of the {sheet.value:g} GB/s of "
                f"{sheet.source}: something else used the card, or its clocks were held down")
    if error > MOST_ERROR_PCT:
        return f"the readings are uncertain by {error:.0f} %: something else used the card"
    return None


def remarks(readings: Readings, asked: CalibrationPlan, rows: Sequence[MatrixRow], spec: GpuSpec) -> tuple[str, ...]:
    """What a reader should know: what is missing and why, and what looks odd."""
    said = [f"{part} was not measured: {why}" for part, why in readings.refused.items()]
    if readings.triton is None and readings.device == "cuda":
        said.append("this Python has no Triton: the ceilings are those of torch's own kernels, which may read slower")
    if readings.l2_bytes and readings.bandwidth:
        largest, wanted = max(each.moved_bytes for each in readings.bandwidth), asked.l2_multiples[-1] * readings.l2_bytes
        if largest < 0.9 * wanted:
            said.append(f"free memory allowed {largest >> 20} MiB a call at most, not {int(wanted) >> 20} MiB: "
                        "the curve ends early")
    for row in rows:
        if row.sheet_pct is not None and row.sheet_pct > 100 * MATRIX_MOST_SHARE:
            said.append(f"{row.dtype} reads {row.sheet_pct:.0f} % of its data sheet ({spec.tflops[row.dtype].source})")
        if row.sustained_tflops is not None and row.sustained_tflops < CAPPED_SHARE * row.burst_tflops:
            said.append(f"{row.dtype} falls from {row.burst_tflops:.0f} to {row.sustained_tflops:.0f} TFLOP/s within "
                        f"{asked.sustained_s:g} s: that is the power limit, not a fault")
    return tuple(said)


def _point(reading: Reading, sheet_gbps: float | None) -> CurvePoint | None:
    us = _median(reading.us)
    if us is None:
        return None
    gbps = reading.moved_bytes / us / 1e3
    return CurvePoint(reading.operation, reading.moved_bytes, gbps, _spread_pct(reading.us),
                      100 * gbps / sheet_gbps if sheet_gbps else None, reading.kernel, len(reading.us))


def _median(values: Sequence[float]) -> float | None:
    """None where there is no time, or noise made it none."""
    middle = statistics.median(values) if values else 0.0
    return middle if middle > 0 else None


def _spread_pct(values: Sequence[float]) -> float:
    """The standard deviation of one value in percent, deaf to a few outliers."""
    middle = statistics.median(values)
    return 100 * ROBUST * statistics.median(abs(value - middle) for value in values) / middle


def _root_mean_square(values: Sequence[float]) -> float:
    return math.sqrt(statistics.fmean(value**2 for value in values))
