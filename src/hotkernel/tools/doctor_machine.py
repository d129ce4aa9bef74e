"""doctor's checks of the machine: system, environment that arrived, folders and room, cores; starts nothing."""

from __future__ import annotations

import contextlib
import os
import platform
import secrets
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

from hotkernel.records.state import state_dir
from hotkernel.schema.doctor import CheckStatus, DoctorCheck
from hotkernel.session import Session
from hotkernel.tools.gpu import is_wsl

# What changes which card, compiler, library or cache is used; tokens and the like are never looked for.
MATTERS = ("CUDA_VISIBLE_DEVICES", "CUDA_HOME", "CUDA_PATH", "CUDA_DEVICE_ORDER", "LD_LIBRARY_PATH", "HOTKERNEL_PYTHON",
           "HOTKERNEL_STATE_DIR", "HOTKERNEL_TOOL_DIRS", "HOTKERNEL_ROOTS", "TORCH_CUDA_ARCH_LIST", "TORCH_EXTENSIONS_DIR",
           "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR", "TRITON_PTXAS_PATH", "PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF",
           "VIRTUAL_ENV", "CONDA_PREFIX", "TMPDIR", "CC", "CXX", "OMP_NUM_THREADS")
LIKELY = ("CUDA_HOME", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")  # of those, what a machine with a card often sets
OF_A_SHELL = ("USER", "LOGNAME", "SHELL", "TERM")  # a client that passes none of these passes next to nothing
PARENTS = 8
ROOM_BYTES = 2 << 30  # compile caches may take so much
BUSY_SHARE = 0.5  # of the cores, on average over the last minute
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")
CPU_STAT = Path("/sys/fs/cgroup/cpu.stat")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def platform_check() -> DoctorCheck:
    """The system, and what it cannot do."""
    told = f"{platform.system()} {platform.release()} {platform.machine()}"
    if os.name == "nt":
        return DoctorCheck("platform", CheckStatus.FAIL, f"{told}: verify needs a system that can fork",
                           "run hotkernel inside WSL2")
    if is_wsl():
        return DoctorCheck("platform", CheckStatus.WARNING, f"{told} (WSL): no CUDA IPC, so verify on the card copies through "
                           "the host; nsys may record no kernels, other processes on the card are not seen",
                           "use a Linux machine for small differences on the card; torch_trace, disasm and CPU targets work here")
    return DoctorCheck("platform", CheckStatus.OK, told)


def environment_check(environment: Mapping[str, str]) -> DoctorCheck:
    """Which variables that matter did not reach this process, by what its parents have."""
    unfilled = [name for name in MATTERS if environment.get(name, "").strip().startswith("${")]
    if unfilled:
        return DoctorCheck("environment", CheckStatus.WARNING, f"the client did not fill in {', '.join(unfilled)}: such a value "
                           "counts as unset", "give the values themselves in the client's config")
    lost, who = _kept_back(environment)
    if lost:
        return DoctorCheck("environment", CheckStatus.WARNING, f"{who}, which started hotkernel, has {', '.join(lost)} set and "
                           "did not pass it on", _pass_on(lost))
    if not any(name in environment for name in OF_A_SHELL):
        missing = [name for name in LIKELY if name not in environment]
        if missing:
            return DoctorCheck("environment", CheckStatus.WARNING, "the client passes only "
                               f"{', '.join(sorted(environment)[:6]) or 'nothing'}; not {', '.join(missing)}", _pass_on(missing))
    there = ", ".join(name for name in MATTERS if environment.get(name)) or "none of those that matter"
    return DoctorCheck("environment", CheckStatus.OK, f"set: {there}; no parent has more")


def folder_check(session: Session) -> DoctorCheck:
    """Whether the state folder and the temporary folder can be written, and how much room they have."""
    folders = {"state": state_dir(session.environment), "temporary": Path(tempfile.gettempdir())}
    told, short = [], []
    for name, folder in folders.items():
        try:
            folder.mkdir(parents=True, exist_ok=True)
            trial = folder / f".hotkernel-{secrets.token_hex(4)}"
            trial.write_bytes(b"hotkernel")
            trial.unlink()
            free = shutil.disk_usage(folder).free
        except OSError as error:
            return DoctorCheck("folders", CheckStatus.FAIL, f"the {name} folder {folder} cannot be written: "
                               f"{error.strerror or error}", "give write permission, or set "
                               + ("HOTKERNEL_STATE_DIR" if name == "state" else "TMPDIR") + " to another folder")
        told.append(f"{name} {folder}: {free / 2**30:.1f} GiB free")
        short += [name] if free < ROOM_BYTES else []
    if short:
        return DoctorCheck("folders", CheckStatus.WARNING, "; ".join(told), f"make room: compile caches may take "
                           f"{ROOM_BYTES >> 30} GiB (HOTKERNEL_STATE_DIR and TMPDIR say where)")
    return DoctorCheck("folders", CheckStatus.OK, "; ".join(told))


def processor_check() -> DoctorCheck:
    """Whether the cores are quiet and steady enough for targets on the CPU."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told, why = [f"{cores} cores"], []
    if hasattr(os, "getloadavg"):
        load = os.getloadavg()[0]
        told.append(f"load {load:.1f}")
        why += ["others use the cores"] if load > BUSY_SHARE * cores else []
    quota, stat, governor = (_read(path) for path in (CPU_QUOTA, CPU_STAT, GOVERNOR))
    throttled = next((int(line.split()[1]) for line in stat.splitlines() if line.startswith("nr_throttled ")), 0)
    if quota and not quota.startswith("max"):
        told.append(f"a quota of {quota} us, throttled {throttled} times")
        why += ["the container's quota stops its processes now and then"] if throttled else []
    if governor:
        told.append(f"governor {governor}")
        why += ["the clock follows the load"] if governor in ("powersave", "ondemand", "conservative") else []
    if cores < 2:
        why.append("a judge and a worker share one core")
    if why:
        return DoctorCheck("processor", CheckStatus.WARNING, f"{', '.join(told)}: {'; '.join(why)}",
                           "targets on the CPU may stay inconclusive: end other work, lift the quota, or set the governor to "
                           "performance; targets on the card hardly notice")
    return DoctorCheck("processor", CheckStatus.OK, ", ".join(told))


def _kept_back(environment: Mapping[str, str]) -> tuple[list[str], str]:
    """Names that a parent of this process has and it has not, and that parent's name. Values are not looked at."""
    import psutil

    lost: dict[str, str] = {}
    with contextlib.suppress(psutil.Error, OSError):
        for parent in psutil.Process().parents()[:PARENTS]:
            with contextlib.suppress(psutil.Error, OSError):
                has = parent.environ()
                lost |= {name: parent.name() for name in MATTERS if has.get(name) and not environment.get(name)
                         and name not in lost}
    return list(lost), next(iter(lost.values()), "")


def _pass_on(names: list[str]) -> str:
    quoted = ", ".join(f'"{name}"' for name in names)
    return (f"Codex: `env_vars = [{quoted}]` under [mcp_servers.hotkernel] in ~/.codex/config.toml; other clients: give them as "
            "`env` of the server (hotkernel install prints the place)")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
