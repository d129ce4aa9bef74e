"""Reads what one card says of itself through NVML; a refused question costs one field and no more, and sets nothing."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hotkernel.schema.gpu import Gpu, GpuProcess, GpuState, MigDevice, throttle_words

MIB = 1024 * 1024
NAME_LIMIT = 200
BOARD_FILE = Path("/proc/device-tree/model")
JETSON_CAPABILITIES = ("7.2", "8.7", "11.0")
# CUDA cores of one multiprocessor by compute capability; others have 128.
# https://docs.nvidia.com/cuda/cuda-c-programming-guide/#arithmetic-instructions (fp32 results per clock)
CORES_PER_SM = {"6.0": 64, "7.0": 64, "7.2": 64, "7.5": 64, "8.0": 64}
# NVML_ERROR_GPU_IS_LOST and NVML_ERROR_RESET_REQUIRED.
UNHEALTHY = {15: "the card has fallen off the bus", 16: "the card must be reset"}
NO_PERMISSION = 4


class Reading:
    """Asks one question after another and keeps what the caller should be told about refusals."""

    def __init__(self, nvml: Any) -> None:
        self.nvml = nvml
        self.warnings: list[str] = []

    def ask(self, name: str, *arguments: Any, must: bool = False) -> Any:
        """What the call answers; None where driver or card refuses. `must` makes any refusal a warning."""
        function = getattr(self.nvml, name, None)
        if function is None:  # a later nvidia-ml-py may drop it
            return None
        try:
            return function(*arguments)
        except UnicodeDecodeError:  # driver 555 under WSL: https://github.com/XuehaiPan/nvitop/issues/127
            self.warn(f"{_spoken(name)} is unreadable")
        except self.nvml.NVMLError as error:
            if error.value in UNHEALTHY:
                self.warn(f"{UNHEALTHY[error.value]} ({error}): believe no measurement on it")
            elif must or error.value == NO_PERMISSION:
                self.warn(f"{_spoken(name)}: {error}")
        return None

    def warn(self, text: str) -> None:
        if text not in self.warnings:
            self.warnings.append(text)


def read_gpu(reading: Reading, handle: Any, index: int, driver: str | None) -> Gpu:
    """Everything about one card, with a warning for what should not be believed or was not allowed."""
    nvml, ask = reading.nvml, reading.ask
    capability = ask("nvmlDeviceGetCudaComputeCapability", handle)
    capability = f"{capability[0]}.{capability[1]}" if capability else None
    cores = whole(ask("nvmlDeviceGetNumGpuCores", handle))
    mig = ask("nvmlDeviceGetMigMode", handle)
    ecc = ask("nvmlDeviceGetEccMode", handle)
    graphics = ask("nvmlDeviceGetGraphicsRunningProcesses", handle)
    pci = ask("nvmlDeviceGetPciInfo", handle)
    memory = ask("nvmlDeviceGetMemoryInfo", handle)
    if memory is None:
        reading.warn("the driver gives no memory size (a card that shares the host's memory has none of its own)")
    return Gpu(
        index=index,
        name=_clean(ask("nvmlDeviceGetName", handle)),
        uuid=_clean(ask("nvmlDeviceGetUUID", handle)),
        pci_bus_id=_clean(pci.busId) if pci else None,
        driver=driver,
        memory_total_mib=_mib(memory.total) if memory else None,
        power_limit_w=_power_limit_w(reading, handle),
        power_limit_default_w=_thousandth(ask("nvmlDeviceGetPowerManagementDefaultLimit", handle)),
        compute_capability=capability,
        cuda_cores=cores,
        sm_count=cores // CORES_PER_SM.get(capability, 128) if cores and capability else None,
        memory_bus_bits=whole(ask("nvmlDeviceGetMemoryBusWidth", handle)) or None,
        max_sm_clock_mhz=whole(ask("nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_SM)) or None,
        max_memory_clock_mhz=whole(ask("nvmlDeviceGetMaxClockInfo", handle, nvml.NVML_CLOCK_MEM)) or None,
        mig=bool(mig[0]) if mig else None,
        mig_devices=_mig_devices(reading, handle) if mig and mig[0] else (),
        ecc=bool(ecc[0]) if ecc else None,
        graphics_processes=None if graphics is None else len(graphics),
        state=read_state(reading, handle),
        board=_board() if capability in JETSON_CAPABILITIES else None,
        warnings=tuple(reading.warnings),
    )


def read_state(reading: Reading, handle: Any) -> GpuState:
    """The card at this moment."""
    nvml, ask = reading.nvml, reading.ask
    mask = whole(ask("nvmlDeviceGetCurrentClocksEventReasons", handle))
    if mask is None:
        mask = whole(ask("nvmlDeviceGetCurrentClocksThrottleReasons", handle))
    memory = ask("nvmlDeviceGetMemoryInfo", handle)
    utilization = ask("nvmlDeviceGetUtilizationRates", handle)
    return GpuState(
        sm_clock_mhz=whole(ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_SM)),
        memory_clock_mhz=whole(ask("nvmlDeviceGetClockInfo", handle, nvml.NVML_CLOCK_MEM)),
        temperature_c=whole(ask("nvmlDeviceGetTemperature", handle, nvml.NVML_TEMPERATURE_GPU)),
        power_w=_thousandth(ask("nvmlDeviceGetPowerUsage", handle)),
        throttle_reasons=throttle_words(mask),
        throttle_mask=mask,
        utilization_pct=whole(utilization.gpu) if utilization else None,
        processes=read_processes(reading, handle),
        memory_used_mib=_mib(memory.used) if memory else None,
        power_limit_w=_power_limit_w(reading, handle),
    )


def read_processes(reading: Reading, handle: Any) -> tuple[GpuProcess, ...] | None:
    """The processes that compute on the card; None where the driver lists none, which is not the same as nobody."""
    listed = reading.ask("nvmlDeviceGetComputeRunningProcesses", handle)
    if listed is None:
        return None
    return tuple(
        GpuProcess(process.pid, _clean(Reading(reading.nvml).ask("nvmlSystemGetProcessName", process.pid)),
                   _mib(process.usedGpuMemory))
        for process in listed
    )


def _mig_devices(reading: Reading, handle: Any) -> tuple[MigDevice, ...]:
    ask = reading.ask
    slots = whole(ask("nvmlDeviceGetMaxMigDeviceCount", handle)) or 0
    slices = [ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, slot) for slot in range(slots)]
    devices = []
    for one in slices:
        if one is not None:
            attributes = ask("nvmlDeviceGetAttributes", one)
            devices.append(MigDevice(
                uuid=_clean(ask("nvmlDeviceGetUUID", one)),
                name=_clean(ask("nvmlDeviceGetName", one)),
                memory_total_mib=whole(attributes.memorySizeMB) if attributes else None,
                sm_count=whole(attributes.multiprocessorCount) if attributes else None,
            ))
    return tuple(devices)


def _power_limit_w(reading: Reading, handle: Any) -> float | None:
    enforced = _thousandth(reading.ask("nvmlDeviceGetEnforcedPowerLimit", handle))
    return enforced if enforced else _thousandth(reading.ask("nvmlDeviceGetPowerManagementLimit", handle)) or None


def _board() -> str | None:
    try:
        return _clean(BOARD_FILE.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None


def _spoken(name: str) -> str:
    """`nvmlDeviceGetPowerUsage` as `PowerUsage`."""
    return re.sub(r"^nvml(Device|System)Get|_v\d+$", "", name)


def _clean(text: Any) -> str | None:
    """A name without control, bidi and zero-width characters, bounded; None when nothing is left."""
    text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    printable = "".join(letter for letter in str(text or "") if letter.isprintable()).strip()
    return printable[:NAME_LIMIT] or None


def whole(value: Any) -> int | None:
    """A count; None for NVML's word for `not available`, all ones."""
    return None if value is None or value in (2**32 - 1, 2**64 - 1) else int(value)


def _mib(value: Any) -> int | None:
    count = whole(value)
    return None if count is None else count // MIB


def _thousandth(value: Any) -> float | None:
    count = whole(value)
    return None if count is None else count / 1000


def version(text: Any) -> str | None:
    """A driver version such as 580.159.04; None for words (driver 610 says `Deprecated, see …` in one place)."""
    cleaned = _clean(text)
    return cleaned if cleaned and re.fullmatch(r"\d+(\.\d+)+", cleaned) else None


def cuda_version(number: Any) -> str | None:
    return None if not number else f"{number // 1000}.{number % 1000 // 10}"
