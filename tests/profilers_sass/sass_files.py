"""The fixtures of the tests about machine code; packed ones are unpacked on the way."""

from __future__ import annotations

import csv
import io
import lzma
import os
from pathlib import Path

import pytest

from hotkernel.errors import ToolError
from hotkernel.machine import programs
from hotkernel.machine.binaries import Toolbox
from hotkernel.machine.process import Job
from hotkernel.profilers import sass
from hotkernel.profilers.instructions import Function

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sass"
SHARED = Path(__file__).parents[2].parent / "shared" / "fixtures"


def public(folder: str) -> Path:
    """A folder of other people's files, which lie beside the checkout; the test is skipped where they do not."""
    path = SHARED / "public" / folder
    if not path.is_dir():
        pytest.skip(f"no {path}")
    return path


def h200(name: str) -> Path:
    """A file of the H200's that is too large to keep here."""
    path = SHARED / "h200" / name
    if not path.exists():
        pytest.skip(f"no {path}")
    return path


def unpacked(name: str, folder: Path) -> Path:
    """A packed fixture as a file in `folder`, under its own name."""
    path = folder / name
    path.write_bytes(lzma.decompress((FIXTURES / f"{name}.xz").read_bytes()))
    return path


def text(name: str) -> str:
    packed = FIXTURES / f"{name}.xz"
    data = lzma.decompress(packed.read_bytes()) if packed.exists() else (FIXTURES / name).read_bytes()
    return data.decode("utf-8")


def source_rows() -> list[dict[str, str]]:
    """ncu's own source page of the rmsnorm, one row an instruction."""
    table = list(csv.reader(io.StringIO(text("rms_full.source_sass.csv"))))
    return [dict(zip(table[1], row, strict=False)) for row in table[2:]]


def toolbox() -> Toolbox:
    """This machine's disassemblers; the test is skipped where there are none."""
    try:
        programs.find("nvdisasm", os.environ)
        return Toolbox.find(Job(), os.environ, need_cuobjdump=True)
    except ToolError as error:
        pytest.skip(str(error))


def tensor_kernels() -> dict[str, Function]:
    return {function.name: function for function in sass.parse(text("tensor_cores.sass"))}
