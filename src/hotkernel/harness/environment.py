"""What of the user's environment a measured process may see: an allow-list, and private folders; starts nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_NAMES = {"PATH", "LANG", "LC_ALL", "TZ", "LD_LIBRARY_PATH", "PYTHONPATH", "VIRTUAL_ENV", "CONDA_PREFIX", "USER", "LOGNAME",
          "SYSTEMROOT", "CC", "CXX", "MAX_JOBS", "OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"}
_PREFIXES = ("CUDA_", "NVIDIA_", "TRITON_", "TORCH_", "TORCHINDUCTOR_", "PYTORCH_", "OMP_", "MKL_", "NCCL_")
_SECRET = re.compile(r"(^|_)(TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH)S?(_|$)")  # NVIDIA_API_KEY_2, NVIDIA_CREDENTIALS


def allowed(environment: Mapping[str, str]) -> dict[str, str]:
    """The part of `environment` that a measured process may see: no token, key or secret, whatever it is called."""
    return {
        name: value
        for name, value in environment.items()
        if (name in _NAMES or name.startswith(_PREFIXES)) and not _SECRET.search(name)
    }


def private(environment: Mapping[str, str], scratch: Path, caches: Path, device: str) -> dict[str, str]:
    """The environment of one side: the allowed part, with home, scratch and compile caches of its own."""
    own = {
        "HOME": scratch,
        "TMPDIR": scratch / "tmp",
        "XDG_CACHE_HOME": caches / "xdg",
        "TRITON_CACHE_DIR": caches / "triton",
        "TORCHINDUCTOR_CACHE_DIR": caches / "inductor",
        "TORCH_EXTENSIONS_DIR": caches / "extensions",
        "CUDA_CACHE_PATH": caches / "cuda",
    }
    for folder in own.values():
        folder.mkdir(parents=True, exist_ok=True)
    chosen = {**allowed(environment), **{name: str(folder) for name, folder in own.items()}}
    # expandable segments cannot be exported to another process, and the outputs must be
    chosen["PYTORCH_CUDA_ALLOC_CONF"] = chosen["PYTORCH_ALLOC_CONF"] = "expandable_segments:False"
    if device:
        chosen["CUDA_VISIBLE_DEVICES"] = device
        # a context takes a third less time to make, 0.07 s on an H200; kernels have as many queues as ever
        chosen.setdefault("CUDA_DEVICE_MAX_COPY_CONNECTIONS", "1")
    return chosen
