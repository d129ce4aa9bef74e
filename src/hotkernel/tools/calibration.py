"""calibrate: has the user's Python measure what this card reaches, judges the readings and keeps them; times nothing itself."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import tempfile
from pathlib import Path
from typing import Annotated, Any

from hotkernel.errors import ToolError
from hotkernel.judge import calibration as judge
from hotkernel.judge import gpu_specs
from hotkernel.machine import driver
from hotkernel.machine.process import Finished
from hotkernel.records import calibrations
from hotkernel.records.state import state_dir
from hotkernel.scaffold import vendor
from hotkernel.schema.calibration import CalibrationPlan, CalibrationResult, Readings
from hotkernel.schema.comparison import PROTOCOL
from hotkernel.schema.gpu import SLOWDOWN_MASK, Gpu, GpuState, throttle_words
from hotkernel.schema.plain import from_plain, to_plain
from hotkernel.schema.roofline import VALID_DAYS, Calibration
from hotkernel.session import Session
from hotkernel.tools.card_lock import card_held
from hotkernel.tools.gpu import CARD_HELP, spec_of

TIMEOUT_S = 300.0  # it takes 45 s on an H200; slow cards take no longer, but a cold disk may
BUSY_PCT = 10  # of the card's time, by somebody else
OWN_PROCESSES = 3  # on the card at once: two twins, and one that is ending
PARTS = {"noise": "pairs of fresh processes", "card": "the card", "bandwidth": "bandwidth", "launches": "launches",
         "matrix": "matrix rates"}


def calibrate(
    session: Session,
    gpu: Annotated[str, CARD_HELP] = "",
    quick: Annotated[bool, "fewer sizes: a quarter of the time"] = False,
) -> CalibrationResult:
    """Measure what this card really reaches, under the product's own timer, and keep it for 30 days.

    Bandwidths, matrix rates, launch gap, event cost, A/A noise: roofline, verify and the board use them.
    """
    card = _chosen(session, gpu)
    asked = judge.plan(quick)
    own = dataclasses.replace(session, environment={**session.environment, "CUDA_VISIBLE_DEVICES": str(card.uuid)})
    with card_held(own) as waited_s, contextlib.closing(driver.open_driver()) as opened:
        watch = _Watch(own, opened, opened.handle(str(card.uuid)))
        readings = _measure(own, asked, watch)
    if readings.uuid and not str(card.uuid).endswith(readings.uuid.removeprefix("GPU-")):
        raise ToolError(f"torch measured the card {readings.uuid}, and {card.uuid} was meant",
                        fix="unset CUDA_VISIBLE_DEVICES for hotkernel, or name the card by its number in gpu_info")
    return _result(session, card, asked, quick, readings, watch, waited_s)


class _Watch:
    """Looks at the card about once a second while the script runs; tells the caller how far it is."""

    def __init__(self, session: Session, opened: driver.Driver, handle: Any) -> None:
        self.session, self.opened, self.handle = session, opened, handle
        self.file: Path | None = None
        self.clocks: set[int] = set()
        self.masks: dict[str, int] = {}  # every reason seen, by the part of the measurement
        self.others = self._count(opened.state(handle))
        self.most = self.others or 0

    def __call__(self, seconds: float) -> None:
        part = self._part()
        clock, mask = self.opened.clock_and_reasons(self.handle)
        self.clocks |= {clock} if clock else set()
        self.masks[part] = self.masks.get(part, 0) | (mask or 0)
        self.most = max(self.most, len(self.opened.processes(self.handle) or ()))
        self.session.progress(f"measuring {PARTS.get(part, 'the card')}, {seconds:.0f} s", None, None)

    def _part(self) -> str:
        """Which part runs, by the script's own file."""
        try:
            return str(json.loads(self.file.read_text(encoding="utf-8"))["stage"]) if self.file else ""
        except (OSError, ValueError, KeyError):
            return ""

    def _count(self, before: GpuState) -> int | None:
        """How many processes hold the card before; raises ToolError when they use it."""
        if before.processes and before.utilization_pct is not None and before.utilization_pct > BUSY_PCT:
            raise ToolError(
                f"the card is busy ({before.utilization_pct} % of its time): what is measured now would be its rest",
                fix="end or wait for: " + ", ".join(f"{each.name or 'a process'} ({each.pid})" for each in before.processes[:5]))
        return None if before.processes is None else len(before.processes)

    def objection(self) -> str | None:
        """Why the bandwidths count for nothing, by what was seen of the card."""
        reasons = throttle_words(self.masks.get("bandwidth", 0) & SLOWDOWN_MASK)
        if reasons:
            return f"the card was slowed down while its bandwidth was read: {', '.join(reasons)}"
        if self.others is not None and self.most > self.others + OWN_PROCESSES:
            return "another process came to the card during the measurement"
        return None

    def warnings(self) -> list[str]:
        """What was seen and does not spoil it."""
        said = []
        if self.others:
            said.append(f"{self.others} other process{'es' if self.others > 1 else ''} held the card, idle when looked at")
        late = throttle_words(self.masks.get("matrix", 0) & SLOWDOWN_MASK)
        if late:
            said.append(f"the card was slowed down while matrix rates were read: {', '.join(late)}")
        return said


def _chosen(session: Session, words: str) -> Gpu:
    """The card that a call means; it must be here and whole."""
    listed = driver.list_gpus()
    here = driver.visible(listed.gpus, session.environment)
    if not here:
        hidden = "CUDA_VISIBLE_DEVICES hides every card" if listed.gpus else str(listed.reason)
        raise ToolError(f"no card is here: {hidden}", fix=listed.fix or "unset CUDA_VISIBLE_DEVICES")
    meant = [gpu for gpu in here if not words or _is_meant(gpu, words)]
    if not meant:
        known = ", ".join(f"{gpu.index} ({gpu.name})" for gpu in here)
        raise ToolError(f"no card {words[:80]} is here", fix=f"name one of {known}")
    card = meant[0]
    if card.mig:
        raise ToolError("a card in MIG mode is not calibrated: its slices share it", fix="verify works without a calibration")
    if not (card.uuid and card.driver and card.name):
        raise ToolError("the driver gives this card no name, uuid or version, so a calibration could not be its own",
                        fix="see gpu_info for what it does say; verify works without a calibration")
    return card


def _is_meant(gpu: Gpu, words: str) -> bool:
    spec = gpu_specs.of_words(words)
    return words in (str(gpu.index), gpu.uuid, gpu.name) or (
        spec is not None and spec is gpu_specs.of_driver_name(gpu.name, gpu.board))


def _measure(session: Session, asked: CalibrationPlan, watch: _Watch) -> Readings:
    """Run the script and read what it wrote."""
    python = session.python()
    script = vendor.package_folder() / "calibration.py"
    caches = state_dir(session.environment) / "caches" / "calibration"
    with tempfile.TemporaryDirectory(prefix="hotkernel-calibration-") as folder:
        plan, watch.file = Path(folder) / "plan.json", Path(folder) / "readings.json"
        plan.write_text(json.dumps(to_plain(asked)), encoding="utf-8")
        finished = session.job.run([python, script, plan, watch.file], timeout_s=TIMEOUT_S, cwd=Path(folder), watch=watch,
                                   env={**session.environment, "TRITON_CACHE_DIR": str(caches)})
        readings = _read(watch.file, python, finished)
    if readings.error:
        sees_none = readings.stage == "card"
        raise ToolError(("no card is here for torch: " if sees_none else "the card could not be measured: ") + readings.error,
                        fix="set HOTKERNEL_PYTHON to a python whose torch is built for CUDA; doctor says more" if sees_none
                        else "free memory on the card and try again; doctor says what else is wrong", detail=finished.tail())
    return readings


def _read(file: Path, python: Path, finished: Finished) -> Readings:
    with contextlib.suppress(OSError, ValueError, TypeError):
        return from_plain(Readings, json.loads(file.read_text(encoding="utf-8")))
    if "No module named 'torch'" in finished.stderr:
        raise ToolError(f"{python} cannot import torch", detail=finished.tail(),
                        fix="set HOTKERNEL_PYTHON to the python of the environment that has your torch")
    raise ToolError(f"the measurement ended with exit status {finished.returncode} and no readings", detail=finished.tail(),
                    fix="call doctor: it tries torch, Triton and the card one by one")


def _result(session: Session, card: Gpu, asked: CalibrationPlan, quick: bool, readings: Readings, watch: _Watch,
            waited_s: float) -> CalibrationResult:
    """Judge the readings, keep what can be true, and answer."""
    spec = spec_of(card)
    found, rows, noise = judge.points(readings, spec), judge.matrix_rows(readings, spec), judge.noise_rows(readings.noise)
    noise_pct = judge.aa_noise_pct(noise)
    error = judge.error_pct(found, noise_pct)
    gap_us, event_us, host_us = judge.launches(readings.launch)
    warnings = (*watch.warnings(), *judge.remarks(readings, asked, rows, spec))
    made_at = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    curves, l2_gbps = judge.curves(found), judge.l2_copy_gbps(readings)
    reason, path = judge.objection(found, spec, error) or watch.objection(), None
    if reason is None:
        path, reason = _kept(session, Calibration(
            gpu=str(card.name), gpu_uuid=str(card.uuid), driver=str(card.driver), power_limit_w=card.power_limit_w,
            made_at=made_at, curves=curves, error_pct=error, matrix=judge.rates(rows), launch_gap_us=gap_us, event_us=event_us,
            l2_copy_gbps=l2_gbps, aa_noise_pct=noise_pct, quick=quick, protocol=PROTOCOL, warnings=warnings))
    seen = 0
    for mask in watch.masks.values():
        seen |= mask
    return CalibrationResult(
        gpu=str(card.name), gpu_uuid=str(card.uuid), driver=str(card.driver), power_limit_w=card.power_limit_w, made_at=made_at,
        quick=quick, saved=path is not None, path=path, reason=reason, valid_days=VALID_DAYS, error_pct=error,
        highest_gbps={operation: max(point.gbps for point in points) for operation, points in curves.items()},
        l2_copy_gbps=l2_gbps, launch_gap_us=gap_us, host_launch_us=host_us, event_us=event_us, aa_noise_pct=noise_pct,
        bandwidth=found, matrix=rows, noise=noise,
        clock_mhz=(min(watch.clocks), max(watch.clocks)) if watch.clocks else (), throttle_reasons=throttle_words(seen) or (),
        versions={"torch": readings.torch, "triton": readings.triton}, seconds=readings.seconds, waited_for_gpu_s=waited_s,
        warnings=warnings)


def _kept(session: Session, calibration: Calibration) -> tuple[str | None, str | None]:
    """The file it is kept in; or none, and why: what was measured is told even where the disk refuses it."""
    state = state_dir(session.environment)
    stands = calibrations.load(state, calibration.gpu_uuid, calibration.driver, calibration.power_limit_w).calibration
    if calibration.quick and stands and not stands.quick:
        return None, f"the full calibration of {stands.made_at} stands; a quick one does not replace it"
    try:
        return str(calibrations.save(state, calibration)), None
    except ToolError as error:
        return None, f"{error.message}; {error.fix}"
