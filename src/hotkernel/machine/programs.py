"""Finds programs: the user's Python with torch, the profilers, the disassemblers; the newest wins. Runs only probes."""

from __future__ import annotations

import functools
import glob
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from hotkernel.errors import ToolError

PROBE_TIMEOUT_S = 60.0  # the first import of torch from a cold disk takes this long on a slow machine
VERSION_TIMEOUT_S = 20.0

# Where each program lies in NVIDIA's wheels and in Triton's, below site-packages.
_IN_WHEELS = {
    "cuobjdump": ("nvidia/*/bin/cuobjdump", "triton/backends/nvidia/bin/cuobjdump"),
    "nvdisasm": ("nvidia/*/bin/nvdisasm", "triton/backends/nvidia/bin/nvdisasm"),
    "ptxas": ("nvidia/*/bin/ptxas", "triton/backends/nvidia/bin/ptxas"),
}
# Where Nsight and CUDA usually install.
_USUAL = {
    "nsys": (
        "/opt/nvidia/nsight-systems/*/bin/nsys",
        "/opt/nvidia/nsight-systems/*/target-linux-*/nsys",
        "/usr/local/cuda*/bin/nsys",
        "/opt/nvidia/nsight-compute/*/host/target-linux-*/nsys",
        "C:/Program Files/NVIDIA Corporation/Nsight Systems */target-windows-x64/nsys.exe",
    ),
    "ncu": (
        "/opt/nvidia/nsight-compute/*/ncu",
        "/usr/local/cuda*/bin/ncu",
        "/usr/local/NVIDIA-Nsight-Compute*/ncu",
        "C:/Program Files/NVIDIA Corporation/Nsight Compute */ncu.bat",
    ),
    "cuobjdump": ("/usr/local/cuda*/bin/cuobjdump", "/opt/cuda/bin/cuobjdump",
                  "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/*/bin/cuobjdump.exe"),
    "nvdisasm": ("/usr/local/cuda*/bin/nvdisasm", "/opt/cuda/bin/nvdisasm",
                 "C:/Program Files/NVIDIA GPU Computing Toolkit/CUDA/*/bin/nvdisasm.exe"),
    "ptxas": ("/usr/local/cuda*/bin/ptxas", "/opt/cuda/bin/ptxas"),
}
_INSTALL = {
    "nsys": "install Nsight Systems (https://developer.nvidia.com/nsight-systems), or use torch_trace, which needs none",
    "ncu": "install Nsight Compute (https://developer.nvidia.com/nsight-compute)",
    "cuobjdump": "pip install nvidia-cuda-cuobjdump, or install the CUDA toolkit",
    "nvdisasm": "pip install nvidia-cuda-nvdisasm, or install the CUDA toolkit",
    "ptxas": "install Triton or the CUDA toolkit",
}


def user_python(environment: Mapping[str, str]) -> Path:
    """The interpreter with the user's torch: HOTKERNEL_PYTHON, else the first python on PATH that imports torch, else our own.

    Raises ToolError when there is none. An empty HOTKERNEL_PYTHON or an unexpanded `${…}` counts as unset.
    """
    named = environment.get("HOTKERNEL_PYTHON", "").strip()
    if named and not (named.startswith("${") and named.endswith("}")):
        found = shutil.which(named, path=environment.get("PATH"))
        if not found:
            raise ToolError(f"HOTKERNEL_PYTHON names {named}, which is no program here",
                            fix="set HOTKERNEL_PYTHON to the python that has your torch")
        return Path(found).absolute()
    tried = []
    for name in ("python3", "python"):
        for folder in environment.get("PATH", "").split(os.pathsep):
            found = shutil.which(name, path=folder) if folder else None
            if found and found not in tried:
                tried.append(found)
                if _imports_torch(found):
                    return Path(found).absolute()
    if sys.executable not in tried and _imports_torch(sys.executable):
        return Path(sys.executable)
    raise ToolError(
        "no Python with torch was found" + (f" (tried {', '.join(tried)})" if tried else ""),
        fix="set HOTKERNEL_PYTHON to the python of the environment that has your torch, for example "
        "HOTKERNEL_PYTHON=$HOME/venv/bin/python",
    )


def find(name: str, environment: Mapping[str, str]) -> Path:
    """The newest `name` (nsys, ncu, cuobjdump, nvdisasm, ptxas) on this machine.

    Looked for on PATH, in HOTKERNEL_TOOL_DIRS, in the user's Python's wheels and where installers put it.
    Raises ToolError that says how to install it.
    """
    found = {path.resolve(): path for path in _candidates(name, environment)}
    if not found:
        raise ToolError(f"{name} is not on this machine",
                        fix=f"{_INSTALL.get(name, 'install it')}; or add its folder to HOTKERNEL_TOOL_DIRS")
    return max(found.values(), key=lambda path: version(path) or ())


@functools.cache
def version(path: Path) -> tuple[int, ...] | None:
    """The version that a program prints, as numbers; None when it prints none."""
    try:
        done = subprocess.run([path, "--version"], capture_output=True, timeout=VERSION_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = (done.stdout + done.stderr).decode("utf-8", "replace")
    match = re.search(r"(?:release |Version |version )(\d+(?:\.\d+)+)", text) or re.search(r"(\d+(?:\.\d+)+)", text)
    return tuple(int(part) for part in match[1].split(".")) if match else None


def _candidates(name: str, environment: Mapping[str, str]) -> Iterator[Path]:
    folders = [*environment.get("PATH", "").split(os.pathsep),
               *environment.get("HOTKERNEL_TOOL_DIRS", "").split(os.pathsep)]
    for folder in filter(None, folders):
        found = shutil.which(name, path=folder)
        if found:
            yield Path(found)
    for pattern in _IN_WHEELS.get(name, ()):
        for site in _site_folders(environment):
            yield from site.glob(pattern)
    for pattern in _USUAL.get(name, ()):
        usual = map(Path, glob.glob(pattern))  # noqa: PTH207 - the patterns are absolute
        yield from (path for path in usual if os.access(path, os.X_OK))


def _site_folders(environment: Mapping[str, str]) -> list[Path]:
    """site-packages of this Python and of the user's."""
    import sysconfig

    folders = [Path(sysconfig.get_paths()["purelib"])]
    try:
        python = user_python(environment)
    except ToolError:
        return folders
    return [*folders, *_site_folders_of(python)]


@functools.cache
def _site_folders_of(python: Path) -> tuple[Path, ...]:
    code = "import sysconfig; print(sysconfig.get_paths()['purelib']); print(sysconfig.get_paths()['platlib'])"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, timeout=VERSION_TIMEOUT_S, check=False, text=True)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(dict.fromkeys(Path(line) for line in done.stdout.splitlines() if line))


@functools.cache
def _imports_torch(python: str) -> bool:
    """Whether this Python has torch, asked without importing it (which takes seconds)."""
    code = "import importlib.util, sys; sys.exit(importlib.util.find_spec('torch') is None)"
    try:
        done = subprocess.run([python, "-c", code], capture_output=True, timeout=PROBE_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
