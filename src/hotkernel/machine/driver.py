"""Opens the NVIDIA driver (NVML), lists its cards and says how each is now; sets nothing on any of them."""

from __future__ import annotations

import ctypes
import logging
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.machine.nvml import (
    Reading,
    cuda_version,
    read_gpu,
    read_processes,
    read_state,
    version,
    whole,
)
from hotkernel.schema.gpu import Foreign, Gpu, GpuList, GpuProcess, GpuState

# Not on the loader's path when a client starts us with a bare environment: WSL2, NixOS.
LIBRARY_PLACES = ("/usr/lib/wsl/lib/libnvidia-ml.so.1", "/run/opengl-driver/lib/libnvidia-ml.so.1")
HOST_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO of the Linux kernel

log = logging.getLogger(__name__)


class Driver:
    """An open connection to NVML; close it, or use it in a `with`. Safe from several threads, as NVML is."""

    def __init__(self, nvml: Any) -> None:
        self._nvml = nvml
        self._errors: tuple[type[Exception], ...] = (nvml.NVMLError, UnicodeDecodeError)
        self.version = version(Reading(nvml).ask("nvmlSystemGetDriverVersion"))
        self.cuda_version = cuda_version(Reading(nvml).ask("nvmlSystemGetCudaDriverVersion_v2"))

    def __enter__(self) -> Driver:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of NVML; a second call does nothing."""
        nvml, self._nvml = self._nvml, None
        if nvml is not None:
            try:
                nvml.nvmlShutdown()
            except nvml.NVMLError as error:
                log.debug("nvmlShutdown: %s", error)

    def gpus(self) -> tuple[Gpu, ...]:
        """Every card of the machine, in NVML's order; one that cannot be reached is listed with a warning."""
        try:
            count = self._nvml.nvmlDeviceGetCount()
        except self._nvml.NVMLError as error:
            message, fix = _no_driver(self._nvml, error)
            raise ToolError(message, fix=fix, detail=str(error)) from None
        return tuple(self._gpu(index) for index in range(count))

    def handle(self, card: int | str) -> Any:
        """NVML's handle of a card by its index or uuid, with or without `GPU-`. Raises ToolError when there is none."""
        nvml = self._nvml
        try:
            if isinstance(card, int):
                return nvml.nvmlDeviceGetHandleByIndex(card)
            return nvml.nvmlDeviceGetHandleByUUID(card if card.startswith(("GPU-", "MIG-")) else f"GPU-{card}")
        except nvml.NVMLError as error:
            raise ToolError(f"the driver has no card {card}: {error}", fix="call gpu_info for the cards here") from None

    def state(self, handle: Any) -> GpuState:
        """The card at this moment; a few milliseconds."""
        return read_state(Reading(self._nvml), handle)

    def clock_and_reasons(self, handle: Any) -> tuple[int | None, int | None]:
        """SM clock in MHz and the clocks-event mask now; cheap enough for hundreds of calls a second."""
        nvml = self._nvml
        try:
            clock: int | None = nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)
        except self._errors:
            clock = None
        return clock, self._reasons(handle)

    def processes(self, handle: Any) -> tuple[GpuProcess, ...] | None:
        """Everybody's processes that compute on the card; None where the driver lists none."""
        return read_processes(Reading(self._nvml), handle)

    def _reasons(self, handle: Any) -> int | None:
        nvml = self._nvml
        try:
            mask: int = nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)
            return mask
        except self._errors:  # a driver before 535 knows them by their older name only
            return whole(Reading(nvml).ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle))

    def _gpu(self, index: int) -> Gpu:
        reading = Reading(self._nvml)
        handle = reading.ask("nvmlDeviceGetHandleByIndex", index, must=True)
        if handle is None:
            return Gpu(index, driver=self.version, warnings=tuple(reading.warnings))
        return read_gpu(reading, handle, index, self.version)


def open_driver(nvml: Any = None) -> Driver:
    """A connection to the driver, through nvidia-ml-py unless another `nvml` is given.

    Raises ToolError, which says why and what to do, where there is no driver that answers.
    """
    if nvml is None:
        import pynvml

        nvml = pynvml
    try:
        _initialise(nvml)
    except nvml.NVMLError as error:
        message, fix = _no_driver(nvml, error)
        raise ToolError(message, fix=fix, detail=str(error)) from None
    return Driver(nvml)


def list_gpus(nvml: Any = None) -> GpuList:
    """Every card here, or none and the reason; raises nothing for a machine without one."""
    try:
        with open_driver(nvml) as driver:
            gpus = driver.gpus()
            told = driver.version, driver.cuda_version
    except ToolError as error:
        return GpuList((), reason=error.message, fix=error.fix)
    if gpus:
        return GpuList(gpus, None, None, *told)
    fix = "check lspci and dmesg for the card; in a container start it with `--gpus all`"
    return GpuList((), "the NVIDIA driver answers and knows no card", fix, *told)


def visible(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> tuple[Gpu, ...]:
    """The cards that CUDA_VISIBLE_DEVICES leaves, in its order; numbers are taken in PCI bus order, which NVML's is."""
    named = environment.get("CUDA_VISIBLE_DEVICES")
    if named is None or (named.startswith("${") and named.endswith("}")):
        return tuple(gpus)
    kept: list[Gpu] = []
    for word in (part.strip() for part in named.split(",")):
        found = [gpu for gpu in gpus if _is_named(gpu, word)]
        if len(found) != 1:  # CUDA, too, ends the list at the first word that names no card
            break
        kept += found
    return tuple(kept)


def foreign(processes: Sequence[GpuProcess] | None, own_pids: Collection[int]) -> Foreign:
    """Who on the card is not ours; `own_pids` are our processes that hold a context on it now.

    A container may number processes otherwise than the driver: then only the numbers of processes are compared.
    """
    if processes is None:
        return Foreign(None, None, "the driver lists no processes here, so others on the card are unknown")
    others = tuple(process for process in processes if process.pid not in own_pids)
    if not own_pids or len(others) < len(processes):
        return Foreign(len(others), others)
    if not processes:
        return Foreign(None, None, "the driver does not list even our own processes, so others on the card are unknown")
    count = max(0, len(processes) - len(own_pids))
    return Foreign(count, () if count == 0 else None,
                   "the driver numbers processes otherwise than this container: others are counted, not named")


def pids_are_the_drivers() -> bool | None:
    """Whether our process numbers are the driver's; None where the system does not say."""
    try:
        return str(Path("/proc/self/ns/pid").readlink()) == HOST_PID_NAMESPACE
    except OSError:
        return None


def _initialise(nvml: Any) -> None:
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        if error.value != nvml.NVML_ERROR_LIBRARY_NOT_FOUND or not _load_library():
            raise
        nvml.nvmlInit()


def _load_library() -> bool:
    """Load NVML from where the loader does not look, so that it is found by name; whether one was there."""
    for place in (place for place in LIBRARY_PLACES if Path(place).exists()):
        try:
            ctypes.CDLL(place)
        except OSError as error:
            log.debug("%s: %s", place, error)
        else:
            return True
    return False


def _no_driver(nvml: Any, error: Any) -> tuple[str, str]:
    container = "in a container start it with `--gpus all`; under WSL2 install the driver in Windows only"
    if error.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
        return ("no NVIDIA driver is installed here (its library libnvidia-ml was not found)",
                f"install the driver; {container}")
    if error.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
        return "the NVIDIA driver is installed and not loaded", f"load it (modprobe nvidia) or restart; {container}"
    if error.value == nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return ("the NVIDIA driver and its library are of different versions",
                "restart, or unload and load the nvidia modules: the driver was updated while it ran")
    if error.value == nvml.NVML_ERROR_NO_PERMISSION:
        return "this user may not talk to the NVIDIA driver", "give access to /dev/nvidia*"
    return f"the NVIDIA driver does not answer: {error}", "look at dmesg for lines with NVRM or Xid, and restart"


def _is_named(gpu: Gpu, word: str) -> bool:
    """Whether a word of CUDA_VISIBLE_DEVICES means this card: its number, its uuid or the beginning of that."""
    if word.isdecimal():
        return int(word) == gpu.index
    return word.startswith("GPU-") and gpu.uuid is not None and gpu.uuid.startswith(word)
