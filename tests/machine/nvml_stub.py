"""Runs Python under a stand-in NVML library, compiled from nvml_stub.c, so that the real nvidia-ml-py is tested."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).with_suffix(".c")
SRC = Path(__file__).parents[2] / "src"


@cache
def library_folder() -> Path:
    """The folder of the compiled stand-in; the test is skipped where there is no C compiler or no ELF."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("no C compiler for the stand-in of NVML")
    folder = Path(tempfile.mkdtemp(prefix="nvml-stub-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", library, SOURCE], check=True, timeout=60
    )
    return folder


def answer(code: str, **variables: str) -> Any:
    """What `code`, run in a Python of its own under the stand-in, leaves in the variable `answer`."""
    tail = "\nimport json\nfrom hotkernel.schema.plain import to_plain\nprint(json.dumps(to_plain(answer)))"
    environment = {**os.environ, "PYTHONPATH": str(SRC), "LD_LIBRARY_PATH": str(library_folder()), **variables}
    done = subprocess.run(
        [sys.executable, "-c", code + tail], env=environment, capture_output=True, timeout=60, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
