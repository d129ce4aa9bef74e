"""doctor's checks of the card and of NVIDIA's programs: driver, users, clocks, calibration, nsys, ncu, disassemblers."""

from __future__ import annotations

import datetime
import re
import sys
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.machine import driver, programs, reports
from hotkernel.profilers import nsys
from hotkernel.records import calibrations
from hotkernel.records.state import state_dir
from hotkernel.schema.doctor import CheckStatus, DoctorCheck
from hotkernel.schema.gpu import POWER_CAP_MASK, Gpu, GpuList
from hotkernel.schema.roofline import VALID_DAYS
from hotkernel.session import Session
from hotkernel.tools import kernels

PROFILE_S = 150.0
NO_CARD_FIX = "nothing to do if there is none: all but calibrate and the profilers works on the CPU. Else: "
# No word of the contract in it, or the profilers would wait for a target's own calls.
ON_CARD = "import torch\nx = torch.ones(1 << 20, device='cuda')\nprint((x * 2).sum().item())\n"
ON_CPU = "print(sum(range(1000)))\n"


def driver_check(listed: GpuList, here: tuple[Gpu, ...]) -> DoctorCheck:
    """The driver, and the cards that it and CUDA_VISIBLE_DEVICES show."""
    if not listed.gpus:
        return DoctorCheck("driver", CheckStatus.WARNING, str(listed.reason), NO_CARD_FIX + str(listed.fix))
    named = ", ".join(f"{gpu.index}: {gpu.name}" for gpu in here[:8])
    told = f"driver {listed.driver}, CUDA up to {listed.cuda_version}; {named or 'every card is hidden'}"
    sick = [warning for gpu in here for warning in gpu.warnings if "believe no" in warning]
    if not here:
        return DoctorCheck("driver", CheckStatus.WARNING, told, "unset CUDA_VISIBLE_DEVICES, or name a card that is here")
    if sick:
        return DoctorCheck("driver", CheckStatus.FAIL, f"{told}; {sick[0]}", "restart the machine; see dmesg for Xid lines")
    return DoctorCheck("driver", CheckStatus.OK, told)


def users_check(gpu: Gpu) -> DoctorCheck:
    """Who else is on the card."""
    processes = gpu.state.processes if gpu.state else None
    if processes is None:
        return DoctorCheck("card_users", CheckStatus.WARNING, "the driver lists no processes here, so others are not seen",
                           "make sure yourself that nobody else uses the card; in a container the host's nvidia-smi tells")
    if Path("/tmp/nvidia-mps/control").exists():
        return DoctorCheck("card_users", CheckStatus.WARNING, "an MPS daemon runs: other clients' kernels may overlap ours",
                           "stop it while measuring (`echo quit | nvidia-cuda-mps-control`)")
    if processes:
        named = ", ".join(f"{each.name or 'a process'} ({each.pid})" for each in processes[:5])
        used = f", busy {gpu.state.utilization_pct} % of the time" if gpu.state and gpu.state.utilization_pct else ""
        return DoctorCheck("card_users", CheckStatus.WARNING, f"{len(processes)} process(es) compute on the card: {named}{used}",
                           "end them before a verify or calibrate: a busy card makes verdicts inconclusive")
    drawn = "; a desktop is drawn on it, which costs some quiet" if gpu.graphics_processes else ""
    return DoctorCheck("card_users", CheckStatus.OK, f"nobody else computes on the card{drawn}")


def clocks_check(gpu: Gpu) -> DoctorCheck:
    """Whether the card's clocks are held back now."""
    state = gpu.state
    if state is None:
        return DoctorCheck("clocks", CheckStatus.WARNING, "the card's state cannot be read", "see gpu_info's warnings")
    reasons = ", ".join(state.throttle_reasons or ()) or "none"
    told = (f"{state.sm_clock_mhz} of {gpu.max_sm_clock_mhz} MHz, {state.temperature_c} °C, {state.power_w} of "
            f"{state.power_limit_w} W, held back by: {reasons}").replace("None", "unknown")
    if state.is_slowed:
        return DoctorCheck("clocks", CheckStatus.WARNING, told, "let it cool, see to its airflow and power supply: values taken "
                           "under a hardware or thermal slowdown are void")
    default_w = gpu.power_limit_default_w
    if state.power_limit_w and default_w and state.power_limit_w < 0.98 * default_w:
        return DoctorCheck("clocks", CheckStatus.WARNING, f"{told}; the limit is usually {default_w:g} W",
                           "nothing, if that is meant: calibrations are kept per power limit")
    if state.throttle_mask is not None and state.throttle_mask & POWER_CAP_MASK:
        return DoctorCheck("clocks", CheckStatus.WARNING, told, "something draws the card's full power now; see card_users")
    return DoctorCheck("clocks", CheckStatus.OK, told)


def calibration_check(session: Session, gpu: Gpu) -> DoctorCheck:
    """Whether the card has been calibrated, and how long ago."""
    if gpu.mig:
        return DoctorCheck("calibration", CheckStatus.SKIPPED, "a card in MIG mode is not calibrated: its slices share it")
    kept = calibrations.load(state_dir(session.environment), gpu.uuid, gpu.driver, gpu.power_limit_w)
    if kept.calibration is None:
        return DoctorCheck("calibration", CheckStatus.WARNING, str(kept.reason),
                           "call calibrate (a minute): roofline, the physical floor and the share of the ceiling need it")
    age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(kept.calibration.made_at)
    kind = "quick" if kept.calibration.quick else "full"
    return DoctorCheck("calibration", CheckStatus.OK, f"{kind}, {age.total_seconds() / 86_400:.1f} days old; valid {VALID_DAYS} "
                       f"days, at driver {kept.calibration.driver} and {kept.calibration.power_limit_w} W")


def nsys_check(session: Session, scratch: Path, on_card: bool, has_card: bool) -> DoctorCheck:
    """Whether nsys records a tiny command and makes a report of it."""
    try:
        found = programs.find("nsys", session.environment)
    except ToolError as error:
        return _missing("nsys", error, has_card)
    try:
        ran = kernels.profile(session, _tiny(scratch, on_card), "nsys", str(scratch / "nsys"), timeout=PROFILE_S)
    except ToolError as error:
        return DoctorCheck("nsys", CheckStatus.FAIL, f"{found}: {error.message}", error.fix)
    told = f"{found}, version {ran.program_version}, made a report of {ran.n_launches} launches"
    if on_card and not ran.n_launches:
        return DoctorCheck("nsys", CheckStatus.FAIL, f"{told}: {ran.reason}", nsys.NO_KERNEL)
    return DoctorCheck("nsys", CheckStatus.OK, told if on_card else f"{told}; kernels cannot be tried with no card")


def ncu_check(session: Session, scratch: Path, on_card: bool, has_card: bool) -> DoctorCheck:
    """Whether ncu may read the card's counters, by profiling one kernel."""
    try:
        found = programs.find("ncu", session.environment)
    except ToolError as error:
        return _missing("ncu", error, has_card)
    version = ".".join(map(str, programs.version(found) or ())) or "unknown"
    if not on_card:
        return DoctorCheck("ncu", CheckStatus.SKIPPED, f"{found}, version {version}; counters cannot be tried with no card")
    try:
        kernels.profile(session, _tiny(scratch, on_card), "ncu", str(scratch / "ncu"), timeout=PROFILE_S, ncu_launch_count=1,
                        ncu_set="basic")
    except ToolError as error:
        return DoctorCheck("ncu", CheckStatus.FAIL, f"{found}, version {version}: {error.message}", error.fix)
    return DoctorCheck("ncu", CheckStatus.OK, f"{found}, version {version}, read a kernel's counters")


def report_reader_check(session: Session, has_card: bool) -> DoctorCheck:
    """Whether NVIDIA's reader of ncu's reports loads: explain cannot do without it."""
    version = reports.ncu_report_version(session.job)
    if version is None:
        said = "NVIDIA's ncu-report is not installed beside hotkernel: explain cannot read a .ncu-rep"
        return _missing("ncu_report", ToolError(said, fix=reports.NCU_REPORT_FIX), has_card)
    return DoctorCheck("ncu_report", CheckStatus.OK, f"version {version} loads")


def disassembler_check(session: Session, name: str, scratch: Path) -> DoctorCheck:
    """Whether cuobjdump or nvdisasm runs, and reads what Triton just compiled, where it did."""
    try:
        found = programs.find(name, session.environment)
    except ToolError as error:
        return DoctorCheck(name, CheckStatus.WARNING, error.message, error.fix)
    version = programs.version(found)
    if version is None:
        return DoctorCheck(name, CheckStatus.FAIL, f"{found} does not run", f"reinstall it, or pip install nvidia-cuda-{name}")
    told = f"{found}, version {'.'.join(map(str, version))}"
    cubin = next(scratch.rglob("*.cubin"), None)
    if cubin is None:
        return DoctorCheck(name, CheckStatus.OK, told)
    listing = session.job.run([found, *(["-sass"] if name == "cuobjdump" else []), cubin], timeout_s=60.0)
    if not listing.ok or not re.search(r"\bEXIT\b", listing.stdout):
        return DoctorCheck(name, CheckStatus.FAIL, f"{told}, cannot read a kernel for this card: {listing.tail(200)}",
                           f"install a newer one: pip install -U nvidia-cuda-{name}")
    return DoctorCheck(name, CheckStatus.OK, f"{told}, disassembled a kernel that Triton had just compiled")


def cards_here(session: Session) -> tuple[GpuList, tuple[Gpu, ...]]:
    """Every card, and those that CUDA would see."""
    listed = driver.list_gpus()
    return listed, driver.visible(listed.gpus, session.environment)


def _missing(name: str, error: ToolError, has_card: bool) -> DoctorCheck:
    """A profiler that is not here; with no card nobody misses it."""
    return DoctorCheck(name, CheckStatus.WARNING if has_card else CheckStatus.SKIPPED, error.message, error.fix)


def _tiny(scratch: Path, on_card: bool) -> list[str]:
    script = scratch / ("on_card.py" if on_card else "on_cpu.py")
    script.write_text(ON_CARD if on_card else ON_CPU, encoding="utf-8")
    return ["python" if on_card else sys.executable, str(script)]
