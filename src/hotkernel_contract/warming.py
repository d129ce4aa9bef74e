"""What every process with a Triton kernel would do first, done once before the forks; touches no CUDA and no user's file.

Triton compiles a C module that is the same for every kernel, in each empty cache anew: 0.25 s. It is made here, where no
candidate is, and kept in memory alone: each worker writes a copy into its own cache, and nobody can change another's.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Dict

BUILD_S = 20.0
_modules: Dict[str, bytes] = {}  # by path below a Triton cache


def warm_triton() -> None:
    """Import Triton, hash its own files (0.5 s), build its module beside that."""
    try:
        import triton

        with tempfile.TemporaryDirectory(prefix="hotkernel-") as folder:
            builder = _start_build(folder)
            try:
                import triton.experimental.gluon  # noqa: F401
                from triton.runtime.cache import triton_key

                triton_key()
            finally:
                _wait(builder)
            _modules.update({str(file.relative_to(folder)): file.read_bytes() for file in Path(folder).rglob("*.so")})
    except Exception:  # noqa: BLE001 - absent, older or broken: the side that needs it will say so
        pass


def lay_modules() -> None:
    """In a worker: a copy of each module where its Triton will look for it."""
    for name, content in _modules.items():
        file = Path(os.environ["TRITON_CACHE_DIR"], name)
        try:
            if not file.exists():
                file.parent.mkdir(parents=True, exist_ok=True)
                beside = file.with_name("%s.%d" % (file.name, os.getpid()))
                beside.write_bytes(content)
                beside.replace(file)
        except OSError:  # it is compiled again, or the side says what is wrong
            return


def _start_build(folder: str) -> int:
    """A fork that has Triton build its module with `folder` as cache: loading it takes the driver's library in."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        os.environ["TRITON_CACHE_DIR"] = folder
        from triton.backends.nvidia.driver import CudaUtils

        CudaUtils()
    finally:
        os._exit(0)  # without a card, a compiler or such a module there is nothing to keep


def _wait(pid: int) -> None:
    """Until the builder has ended, or BUILD_S are over and it is ended with its compiler."""
    deadline = time.monotonic() + BUILD_S
    while os.waitpid(pid, os.WNOHANG)[0] == 0:
        if time.monotonic() > deadline:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return
        time.sleep(0.002)
