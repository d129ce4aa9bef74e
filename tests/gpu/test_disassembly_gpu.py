"""disasm and explain on kernels that Triton compiles on this machine's card, held against what Triton says of them."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from hotkernel.errors import ToolError
from hotkernel.schema.disassembly import Disassembly
from hotkernel.session import Session
from hotkernel.tools.disassembly import disasm, explain
from hotkernel.tools.kernels import profile

pytestmark = pytest.mark.gpu

KERNELS = Path(__file__).parents[1] / "fixtures" / "sass" / "gpu_kernels.py"


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The kernels, to be compiled into a cache of this test's own."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("triton")
    if not torch.cuda.is_available():
        pytest.skip("no card")
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "triton"))
    spec = importlib.util.spec_from_file_location("gpu_kernels", KERNELS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read(kernel: str) -> Disassembly:
    return disasm(Session(environment=dict(os.environ)), "triton-cache", kernel=kernel)


def is_of(result: Disassembly, compiled: Any) -> bool:
    """Whether the cache's newest file is what Triton just ran."""
    return Path(result.path).read_bytes() == compiled.asm["cubin"]


def test_registers_of_a_kernel_that_fits_are_tritons_and_nothing_is_said_of_spills(kernels: ModuleType) -> None:
    compiled = kernels.plain()

    result = read("plain_kernel")

    (kernel,) = result.kernels
    assert is_of(result, compiled)
    assert kernel.registers == compiled.n_regs
    assert compiled.n_spills == 0
    assert (kernel.spill_stores, kernel.spill_loads, kernel.stack_bytes) == (0, 0, 0)
    assert "spills" not in {finding.rule for finding in result.findings}
    assert kernel.global_loads.widest_bits == 128
    assert {line.file for line in kernel.source_lines} == {KERNELS.name}


def test_a_kernel_that_triton_counts_spills_for_is_said_to_spill(kernels: ModuleType) -> None:
    compiled = kernels.spill(1)

    result = read("spilling_kernel")

    (kernel,) = result.kernels
    assert is_of(result, compiled)
    assert kernel.registers == compiled.n_regs
    assert compiled.n_spills > 0
    assert result.findings[0].rule == "launch"
    assert result.findings[1].rule == "spills"
    assert kernel.spill_stores
    assert kernel.spill_loads
    # Triton's count is the driver's local memory a thread in words; the stack may be rounded up to it.
    assert kernel.stack_bytes is not None
    assert 0 <= 4 * compiled.n_spills - kernel.stack_bytes <= 64


def test_the_newest_of_two_variants_is_the_one_that_ran_last(kernels: ModuleType) -> None:
    kernels.spill(1)
    compiled = kernels.spill(8)

    result = read("spilling_kernel")

    assert is_of(result, compiled)
    assert result.n_variants == 2
    assert sorted(each.num_warps or 0 for each in result.variants) == [1, 8]
    assert result.variants[0].num_warps == 8


def test_a_matrix_product_shows_tensor_core_instructions(kernels: ModuleType) -> None:
    compiled = kernels.dot()

    result = read("dot_kernel")

    (kernel,) = result.kernels
    assert is_of(result, compiled)
    assert kernel.registers == compiled.n_regs
    assert kernel.tensor_core
    assert all("MMA" in each.opcode for each in kernel.tensor_core)
    assert "tensor-cores" in {finding.rule for finding in result.findings}


def profiled(folder: Path, num_warps: int) -> Path:
    """A full report of the spilling kernel with so many warps, by the product; skipped where ncu may not count."""
    session = Session(root=folder, environment={**os.environ, "HOTKERNEL_PYTHON": sys.executable})
    try:
        ran = profile(session, ["python", str(KERNELS), "spill", str(num_warps)], tool="ncu", out_dir=f"warps{num_warps}",
                      ncu_kernel_regex="spilling", ncu_launch_count=1, ncu_set="full")
    except ToolError as error:
        if "ERR_NVGPUCTRPERM" in error.message or "not on this machine" in error.message:
            pytest.skip(error.message)
        raise
    return Path(ran.report)


def test_the_difference_of_two_profiles_says_that_the_spills_went(kernels: ModuleType, tmp_path: Path) -> None:
    pytest.importorskip("ncu_report")
    before, after = profiled(tmp_path, 1), profiled(tmp_path, 16)
    spilled = kernels.spill(1)
    fits = kernels.spill(16)

    old = explain(Session(), str(before))
    result = explain(Session(), str(after), against=str(before))

    assert old.figures.registers == spilled.n_regs
    assert result.figures.registers == fits.n_regs
    assert "spills" in {finding.rule for finding in old.findings}
    assert result.lines[0].file is not None
    assert result.lines[0].file.endswith(KERNELS.name)
    assert result.lines[0].source
    assert result.difference is not None
    assert result.difference.speedup is not None
    moved = {change.figure: change for change in result.difference.changes}["local_instructions"]
    assert moved.before
    assert moved.after is not None
    assert moved.after < moved.before
    assert "spill loads and stores" in result.difference.why
