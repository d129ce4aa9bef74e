"""The tools gpu_info, roofline and plot: what cards are here, what they could do, and a picture; measures nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from hotkernel.errors import ToolError
from hotkernel.judge import gpu_specs, worked_out
from hotkernel.judge import roofline as roof
from hotkernel.machine import driver
from hotkernel.parameter import Choices
from hotkernel.plots import roofline as plots
from hotkernel.plots.canvas import Sheet
from hotkernel.records import calibrations, comparisons, files, markdown
from hotkernel.records.calibrations import Kept
from hotkernel.records.state import state_dir
from hotkernel.schema.gpu import Gpu, GpuInfo, GpuReport
from hotkernel.schema.roofline import (
    DTYPES,
    Calibration,
    CalibrationSummary,
    CardPeaks,
    GpuSpec,
    MeasuredPeaks,
    Picture,
    PlottedKernel,
    Roofline,
)
from hotkernel.session import Session

KERNELS_LIMIT = 20
NAME_LIMIT = 60
PLOT = Sheet(9.6, 6.0, 11.0)
UUID = re.compile("(GPU|MIG)-")
OS_RELEASE = Path("/proc/sys/kernel/osrelease")
CARD_HELP = "h200, rtx5090, a driver's name, a number or uuid (default: the first here)"
Dtype = Annotated[str, Choices(*DTYPES), "what is computed in"]
Measured = Annotated[float | None, "measured bandwidth (default: the calibration's)"]


def gpu_info(session: Session) -> GpuInfo:
    """Every GPU here: memory, power limit, clocks, why it is throttled, other processes, its peaks and calibration.

    With no driver or no card the list is empty and `reason` says why.
    """
    listed = driver.list_gpus()
    seen = {gpu.index for gpu in driver.visible(listed.gpus, session.environment)}
    kept = [_kept(session, gpu) for gpu in listed.gpus]
    reports = tuple(_report(gpu, found, gpu.index in seen) for gpu, found in zip(listed.gpus, kept, strict=True))
    return GpuInfo(
        gpus=reports,
        reason=listed.reason,
        fix=listed.fix,
        driver=listed.driver,
        cuda_version=listed.cuda_version,
        platform=f"{platform.system()} {platform.release()} {platform.machine()}",
        wsl=is_wsl(),
        warnings=(*_warnings(reports), *(text for found in kept for text in found.warnings)),
    )


def roofline(
    session: Session,
    gpu: Annotated[str, CARD_HELP] = "",
    flops: Annotated[float | None, "operations of a call"] = None,
    bytes: Annotated[float | None, "bytes that a call reads and writes"] = None,
    dtype: Dtype = "bf16",
    measured_mem_gbs: Measured = None,
) -> Roofline:
    """How fast this much work could be on a card: its roofs, which of them binds, and the time that allows.

    `attainable_ms` is by the data sheet, `attainable_ms_measured` by what this very card was seen to reach.
    """
    return _roofs(_card(session, gpu), flops, bytes, dtype, measured_mem_gbs)


def plot(
    session: Session,
    gpu: Annotated[str, CARD_HELP] = "",
    dtype: Dtype = "bf16",
    kernels: Annotated[Sequence[str], "each `name:flops:bytes:ms`"] = (),
    comparison: Annotated[str, "a verify's id: its sides are placed"] = "",
    measured_mem_gbs: Measured = None,
    format: Annotated[Literal["png", "svg"], "kind of picture"] = "png",
) -> Picture:
    """Draw a card's roofs, by data sheet and as calibrated, with kernels under them."""
    card = _card(session, gpu)
    roofs = _roofs(card, None, None, dtype, measured_mem_gbs)
    placed = [_kernel(text) for text in kernels]
    if comparison:
        placed += _sides(session, comparison)
    if len(placed) > KERNELS_LIMIT:
        raise ToolError(f"{len(placed)} kernels are too many for one plot", fix=f"give at most {KERNELS_LIMIT}")
    content = _painted(roofs, placed, format)
    name = f"{card.spec.key or 'card'}-{dtype}-{hashlib.sha256(content).hexdigest()[:12]}.{format}"
    path = state_dir(session.environment) / "plots" / name
    files.write_whole(path, content)
    return Picture(str(path), len(content), "image/png" if format == "png" else "image/svg+xml", roofs.gpu, dtype,
                   tuple(each.name for each in placed), roofs.notes)


def spec_of(gpu: Gpu) -> GpuSpec:
    """A card's peaks: from the table where its name stands there, else worked out; a MIG slice has its share."""
    known = gpu_specs.of_driver_name(gpu.name, gpu.board)
    spec = worked_out.completed(known, gpu) if known else worked_out.from_properties(gpu)
    return worked_out.slice_of(spec, gpu.sm_count, gpu.mig_devices[0]) if gpu.mig and gpu.mig_devices else spec


def is_wsl() -> bool:
    """Whether this Linux runs under Windows."""
    try:
        return "microsoft" in OS_RELEASE.read_text(encoding="utf-8", errors="replace").lower()
    except OSError:
        return False


@dataclass(frozen=True)
class _Card:
    """The card that a call means: its peaks, and its calibration where it is here."""

    spec: GpuSpec
    kept: Kept | None = None  # null: the card is not here


def _card(session: Session, words: str) -> _Card:
    listed = driver.list_gpus()
    here = driver.visible(listed.gpus, session.environment)
    if not words and not here:
        hidden = "CUDA_VISIBLE_DEVICES hides every card" if listed.gpus else str(listed.reason)
        raise ToolError(f"no card is here: {hidden}",
                        fix=f"name one, such as gpu='h200' ({len(gpu_specs.table())} are known), or {listed.fix}")
    spec = gpu_specs.of_words(words) if words else None
    meant = [gpu for gpu in here if not words or _is_meant(gpu, words, spec)]
    if meant:
        return _Card(spec_of(meant[0]), _kept(session, meant[0]))
    if words.isdecimal() or UUID.match(words):
        raise ToolError(f"no card {words[:80]} is here", fix="call gpu_info for the cards here and their numbers")
    if spec is None:
        near = gpu_specs.near(words)
        raise ToolError(f"no card is known as {words[:80]!r}",
                        fix=f"did you mean {', '.join(near)}?" if near else f"known: {', '.join(gpu_specs.table())}")
    return _Card(worked_out.completed(spec))


def _is_meant(gpu: Gpu, words: str, spec: GpuSpec | None) -> bool:
    if words.isdecimal():
        return gpu.index == int(words)
    if UUID.match(words):
        return gpu.uuid == words or any(device.uuid == words for device in gpu.mig_devices)
    own = gpu_specs.of_driver_name(gpu.name, gpu.board)
    return gpu.name == words or (own is not None and own is spec)


def _roofs(
    card: _Card, flops: float | None, moved_bytes: float | None, dtype: str, measured_mem_gbs: float | None
) -> Roofline:
    if measured_mem_gbs is not None and not measured_mem_gbs > 0:
        raise ToolError("measured_mem_gbs must be above 0", fix="leave it out to use the saved calibration")
    calibration = card.kept.calibration if card.kept else None
    measured = roof.measured_peaks(calibration, moved_bytes, None, dtype) if calibration else None
    notes = list(card.kept.warnings) if card.kept else []
    if measured_mem_gbs is not None:
        measured = MeasuredPeaks(measured_mem_gbs, measured.tflops if measured else None, "given by the caller")
    elif measured is None and card.kept:
        notes.append(str(card.kept.reason))
    elif measured and measured.bandwidth_gbps is None:
        notes.append("so few bytes live in the cache: there is no measured bandwidth for them")
    result = roof.roofline(card.spec, flops, moved_bytes, dtype, measured)
    return dataclasses.replace(result, notes=(*result.notes, *notes))


def _kept(session: Session, gpu: Gpu) -> Kept:
    if gpu.mig:
        return Kept(None, "a card in MIG mode is not calibrated: its slices share it")
    return calibrations.load(state_dir(session.environment), gpu.uuid, gpu.driver, gpu.power_limit_w)


def _report(gpu: Gpu, kept: Kept, is_visible: bool) -> GpuReport:
    spec = spec_of(gpu) if gpu.name else None
    fields = {field.name: getattr(gpu, field.name) for field in dataclasses.fields(Gpu)}
    return GpuReport(
        **fields,
        visible=is_visible,
        peaks=_peaks(spec) if spec else None,
        calibration=_summary(kept.calibration) if kept.calibration else None,
        calibration_note=kept.reason,
    )


def _peaks(spec: GpuSpec) -> CardPeaks:
    return CardPeaks(
        key=spec.key,
        name=spec.name,
        worked_out=spec.worked_out,
        tflops={dtype: rate.value for dtype, rate in spec.tflops.items()},
        bandwidth_gbps=spec.bandwidth_gbps.value if spec.bandwidth_gbps else None,
        l2_bytes=spec.l2_bytes.value if spec.l2_bytes else None,
        shared_per_block_bytes=spec.shared_per_block_bytes.value if spec.shared_per_block_bytes else None,
        notes=spec.notes,
    )


def _summary(calibration: Calibration) -> CalibrationSummary:
    return CalibrationSummary(
        made_at=calibration.made_at,
        quick=calibration.quick,
        error_pct=calibration.error_pct,
        highest_gbps={operation: max(point.gbps for point in points)
                      for operation, points in calibration.curves.items() if points},
        burst_tflops={dtype: rate.burst_tflops for dtype, rate in calibration.matrix.items()},
        sustained_tflops={dtype: rate.sustained_tflops for dtype, rate in calibration.matrix.items()
                          if rate.sustained_tflops is not None},
        launch_gap_us=calibration.launch_gap_us,
        l2_copy_gbps=calibration.l2_copy_gbps,
        aa_noise_pct=calibration.aa_noise_pct,
    )


def _warnings(reports: tuple[GpuReport, ...]) -> list[str]:
    """What matters beyond one card: processes that cannot be seen or told apart."""
    warnings = []
    if any(report.state and report.state.processes is None for report in reports):
        warnings.append("the driver lists no processes here, so others on a card are unknown")
    elif any(report.state and report.state.processes for report in reports) and driver.pids_are_the_drivers() is False:
        warnings.append("process numbers are the driver's, and this container may number processes otherwise")
    return warnings


def _kernel(text: str) -> PlottedKernel:
    """`name:flops:bytes:ms`; the name may hold colons itself."""
    name, *numbers = text.rsplit(":", 3)
    try:
        flops, moved_bytes, ms = map(float, numbers)
        return PlottedKernel(name or "kernel", flops, moved_bytes, ms)
    except ValueError:
        raise ToolError(f"{text[:80]!r} is no kernel",
                        fix="write name:flops:bytes:ms, numbers above 0, as in rmsnorm:2.7e8:1.34e8:0.036") from None


def _sides(session: Session, comparison_id: str) -> list[PlottedKernel]:
    comparison = comparisons.load(state_dir(session.environment), comparison_id)
    flops, moved_bytes = (comparison.roofline_inputs.get(name) for name in ("flops", "min_bytes"))
    if not flops or not moved_bytes:
        raise ToolError(f"comparison {comparison_id} does not say its flops and bytes",
                        fix="give its kernels as name:flops:bytes:ms, or make the target with flops=")
    sides = {"baseline": comparison.baseline, "incumbent": comparison.incumbent, "candidate": comparison.candidate}
    return [PlottedKernel(f"{comparison.target} {side}", flops, moved_bytes, measured.mean_ms)
            for side, measured in sides.items() if measured]


def _painted(roofs: Roofline, placed: Sequence[PlottedKernel], format: Literal["png", "svg"]) -> bytes:
    labelled = [dataclasses.replace(each, name=f"{markdown.plain(each.name, NAME_LIMIT)}: {each.ms:.4g} ms, "
                                               f"{plots.tflops(each):.3g} TFLOP/s") for each in placed]
    try:
        return plots.roofline(roofs, labelled, PLOT, format, title=f"{roofs.gpu}, {roofs.dtype}")
    except ValueError as error:
        raise ToolError(str(error), fix="choose another dtype or card") from None
    except ImportError:
        raise ToolError("a plot needs matplotlib, which is not installed here", fix="pip install 'hotkernel[plot]'") from None
