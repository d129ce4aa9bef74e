"""What is said about a kernel's code, held against what the assembler and the profiler say of it."""

from __future__ import annotations

import csv
import functools
from pathlib import Path

import pytest
from sass_files import FIXTURES, h200, tensor_kernels, text, toolbox, unpacked

from hotkernel.profilers import control_flow, findings, ptx, sass
from hotkernel.schema.disassembly import KernelCode


@functools.cache
def codes(path: Path) -> dict[str, KernelCode]:
    tools = toolbox()
    usage = {each.function: each for each in sass.parse_resource_usage(tools.resource_usage(path))}
    return {
        each.name: findings.kernel_code(each, usage.get(each.name), is_sass=True)
        for each in sass.parse(tools.nvdisasm_listing(path))
    }


def rules(*kernels: KernelCode) -> dict[str, str]:
    return {each.rule: each.text for each in findings.find(kernels, is_sass=True)}


@pytest.mark.parametrize("name", ["spill_sm90", "kernels_sm90"])
def test_spilled_bytes_are_those_that_ptxas_counted(name: str) -> None:
    said = ptx.parse_ptxas(text(f"{name}.ptxas.log"))
    found = codes(FIXTURES / f"{name}.cubin")

    assert len(said) == len(found)
    for usage in said:
        kernel = found[usage.function]
        assert (kernel.registers, kernel.stack_bytes) == (usage.registers, usage.stack_bytes)
        assert (kernel.spill_store_bytes, kernel.spill_load_bytes) == (usage.spill_store_bytes, usage.spill_load_bytes)


def test_a_kernel_that_spills_is_said_to_spill(tmp_path: Path) -> None:
    kernel = codes(unpacked("spilly_kernel.cubin", tmp_path))["spilly_kernel"]

    assert (kernel.registers, kernel.stack_bytes) == (64, 7368)
    assert kernel.spill_stores == 6240
    assert kernel.spill_loads == 6459
    said = findings.find([kernel], is_sass=True)
    assert said[0].rule == "spills"
    assert "6,240 stores and 6,459 loads" in said[0].text
    assert "stack 7,368 bytes" in said[0].text
    assert "code-size" in rules(kernel)


def test_spills_are_counted_by_cuobjdumps_own_listing_too(tmp_path: Path) -> None:
    listing = toolbox().cuobjdump_listing(unpacked("spilly_kernel.cubin", tmp_path))

    assert sum(" STL" in line and "[R1" in line for line in listing.splitlines()) == 6240
    assert sum(" LDL" in line and "[R1" in line for line in listing.splitlines()) == 6459


def test_an_array_in_local_memory_is_not_called_a_spill() -> None:
    kernel = codes(FIXTURES / "kernels_sm90.cubin")["local_array"]

    assert kernel.stack_bytes == 1024
    assert (kernel.spill_stores, kernel.spill_loads) == (0, 0)
    assert kernel.local_array_accesses == 6
    assert "spills" not in rules(kernel)
    assert "computed address" in rules(kernel)["local-array"]


def test_a_matrix_product_shows_its_tensor_cores_and_its_loop() -> None:
    kernel = codes(FIXTURES / "matmul_kernel.cubin")["matmul_kernel"]

    assert (kernel.registers, kernel.stack_bytes) == (107, 0)
    assert [(each.opcode, each.count) for each in kernel.tensor_core] == [("HGMMA.64x128x16.F32.BF16", 4)]
    (loop,) = kernel.loops
    assert (loop.kind, loop.depth, loop.tensor, loop.global_loads, loop.global_load_bytes) == ("work", 1, 4, 8, 128)
    assert loop.source == "more_kernels.py:15-16"


def test_sass_and_ptx_of_one_kernel_have_the_same_loop() -> None:
    (function,) = ptx.parse(text("matmul_kernel.ptx"))
    of_ptx = findings.kernel_code(function, None, is_sass=False)
    of_sass = codes(FIXTURES / "matmul_kernel.cubin")["matmul_kernel"]

    (one,), (other,) = of_ptx.loops, of_sass.loops
    assert (one.tensor, one.global_loads, one.global_load_bytes) == (
        other.tensor,
        other.global_loads,
        other.global_load_bytes,
    )
    assert of_ptx.spill_loads is None
    assert of_ptx.registers is None


def test_nested_loops_are_found_with_their_depth_and_their_lines() -> None:
    kernel = codes(FIXTURES / "kernels_sm90.cubin")["_Z9tiled_sumILi256EEvPKfPfi"]

    outer, inner = sorted(kernel.loops, key=lambda loop: loop.depth)
    assert (outer.depth, outer.inner_loops, outer.barriers, outer.global_loads) == (1, 1, 2, 1)
    assert (inner.depth, inner.inner_loops, inner.barriers, inner.global_loads, inner.shared_accesses) == (
        2,
        0,
        0,
        0,
        1,
    )
    source = (FIXTURES / "kernels.cu").read_text(encoding="utf-8").splitlines()
    assert inner.source is not None
    assert "total += tile[k]" in source[int(inner.source.split(":")[1].split("-")[0]) - 1]


def test_a_slow_path_that_jumps_back_is_no_loop() -> None:
    functions = {each.name: each for each in sass.parse(toolbox().nvdisasm_listing(FIXTURES / "kernels_sm90.cubin"))}
    divide = functions["divide"]

    assert any(row.base == "CALL" for row in divide.instructions)
    assert control_flow.loops(divide) == ((), 0)


def test_a_spin_on_a_barrier_and_the_choice_of_one_thread_are_no_work() -> None:
    kernel = findings.kernel_code(tensor_kernels()["bulk_copy"], None, is_sass=True)

    assert sorted(loop.kind for loop in kernel.loops) == ["election", "wait"]
    assert [each.opcode for each in kernel.bulk_copies] == ["UTMALDG.1D"]


def test_the_widest_and_the_narrowest_access_are_told() -> None:
    kernels = codes(FIXTURES / "kernels_sm90.cubin")

    wide, narrow = kernels["copy_wide"], kernels["copy_bytes"]
    assert (wide.global_loads.widest_bits, wide.global_loads.narrowest_bits) == (128, 128)
    assert (narrow.global_stores.widest_bits, narrow.global_stores.narrowest_bits) == (8, 8)
    assert "32 bits or less" not in rules(wide)["global-loads"]
    assert "1 of 1 move 32 bits or less" in rules(narrow)["global-loads"]


def test_warps_by_registers_are_what_ncu_reports_for_the_same_kernels(tmp_path: Path) -> None:
    """ncu gives blocks by registers; a block had 8 warps (matmul) and 1 warp (spilly)."""
    with h200("more.raw.csv").open(encoding="utf-8", newline="") as file:
        table = [row for row in csv.reader(file) if row and not row[0].startswith("==")]
    launches = {
        row[table[0].index("Kernel Name")].split("(")[0]: dict(zip(table[0], row, strict=True)) for row in table[2:]
    }
    ours = {**codes(FIXTURES / "matmul_kernel.cubin"), **codes(unpacked("spilly_kernel.cubin", tmp_path))}

    for name, warps in (("matmul_kernel", 8), ("spilly_kernel", 1)):
        assert ours[name].registers == int(launches[name]["launch__registers_per_thread"])
        assert ours[name].register_limited_warps == warps * float(launches[name]["launch__occupancy_limit_registers"])


def test_shares_of_the_mix_and_counts_of_lines_add_up() -> None:
    for kernel in codes(FIXTURES / "kernels_sm90.cubin").values():
        assert sum(each.count for each in kernel.mix) <= kernel.instructions
        assert sum(line.instructions for line in kernel.source_lines) == kernel.instructions
        for share in kernel.mix:
            assert share.share_pct == pytest.approx(100 * share.count / kernel.instructions)


def test_findings_of_several_kernels_name_their_kernel() -> None:
    kernels = list(codes(FIXTURES / "kernels_sm90.cubin").values())

    for finding in findings.find(kernels, is_sass=True):
        assert any(finding.text.startswith(kernel.name) for kernel in kernels)


def test_an_unknown_architecture_has_no_limit_of_warps() -> None:
    (function,) = sass.parse(
        text("rms.cuobjdump.sass").replace("sm_90a", "sm_999").replace("EF_CUDA_SM90", "EF_CUDA_SM999")
    )

    kernel = findings.kernel_code(function, None, is_sass=True)

    assert kernel.max_warps is None
    assert kernel.register_limited_warps is None
