"""PTX text, and what ptxas says of it."""

from __future__ import annotations

from sass_files import FIXTURES, public, text

from hotkernel.profilers import ptx


def test_every_statement_of_tritons_ptx_is_read() -> None:
    source = text("matmul_kernel.ptx")

    (function,) = ptx.parse(source)

    statements = [
        line
        for line in source.splitlines()
        if line.startswith("\t") and line.split("//")[0].strip().endswith(";") and line.strip()[0] not in "./"
    ]
    assert function.name == "matmul_kernel"
    assert function.arch == "sm_90a"
    assert len(function.instructions) == len(statements) == 497
    assert function.directives == (".reqntid 256",)


def test_ptx_loads_have_the_width_of_all_their_lanes() -> None:
    (function,) = ptx.parse(text("matmul_kernel.ptx"))

    copies = {row.access.bits for row in function.instructions if row.access and row.opcode.startswith("cp.async")}
    stores = {row.access.bits for row in function.instructions if row.access and row.opcode.startswith("st.global")}

    assert copies == {128}
    assert stores == {128}


def test_source_places_name_the_python_file_though_the_table_of_files_comes_last() -> None:
    (function,) = ptx.parse(text("matmul_kernel.ptx"))

    places = {row.place for row in function.instructions if row.family == "tensor cores"}

    assert [(each.file.rsplit("/", 1)[-1], each.line) for each in places if each] == [("more_kernels.py", 16)]


def test_a_local_array_is_the_entrys_depot() -> None:
    functions = {each.name: each for each in ptx.parse(text("kernels_sm90.ptx"))}

    assert functions["local_array"].stack_bytes == 1024
    assert functions["copy_wide"].stack_bytes is None


def test_the_listing_of_one_kernel_is_its_entry_alone() -> None:
    lines = ptx.render(text("kernels_sm90.ptx"), {"copy_bytes"})

    assert lines[0].startswith(".visible .entry copy_bytes(")
    assert lines[-1] == "}"
    assert sum(".entry" in line for line in lines) == 1


def test_debug_sections_are_left_out_and_counted() -> None:
    source = text("matmul_kernel.ptx")

    lines = ptx.render(source)

    assert ".debug_info" not in "\n".join(lines[:-1])
    hidden = source.count("\n") + 1 - (len(lines) - 1)
    assert abs(int(lines[-1].split()[1]) - hidden) <= 1
    assert hidden > 50


def test_each_block_of_ptxas_belongs_to_its_own_entry() -> None:
    """A device function's zeros behind the entry must not hide the entry's spills."""
    log = (public("ptxas") / "cuda135_sm120_julia_bb_maxreg24_spills.log").read_text(encoding="utf-8")

    (usage,) = ptx.parse_ptxas(log)

    assert (usage.registers, usage.stack_bytes, usage.spill_store_bytes, usage.spill_load_bytes) == (80, 88, 120, 92)


def test_ptxas_logs_of_all_ages_give_their_right_values() -> None:
    folder = public("ptxas")
    right = {
        "cuda118_sm70_celeritas.log": (1, 32, 0),
        "cuda118_sm80_julia_bb.log": (1, 80, 0),
        "cuda129_sm89_julia_bb_maxreg32_spills.log": (1, 80, 0),
        "cuda135_nvcc_multiarch_sm90_sm120.log": (2, 39, 0),
        "cuda135_nvcc_sm120_12i_maxreg24.log": (1, 24, 588),
        "cuda135_nvcc_sm120_local_array.log": (1, 40, 0),
        "cuda135_nvcc_sm90_reduction_templates.log": (213, 26, 0),
        "cuda135_sm121a_clmad.log": (1, 10, 0),
        "cuda135_sm90_celeritas.log": (1, 32, 0),
        "sgemm_registers_info.txt": (15, 128, 0),
    }

    for name, (count, registers, spilled) in right.items():
        found = ptx.parse_ptxas((folder / name).read_text(encoding="utf-8"))
        most = max(each.registers or 0 for each in found)
        assert (len(found), most, sum(each.spill_store_bytes or 0 for each in found)) == (count, registers, spilled), (
            name
        )
    for name in ("cuda118_error_ptx_version.log", "cuda135_error_sm70_removed.log"):
        assert ptx.parse_ptxas((folder / name).read_text(encoding="utf-8")) == ()


def test_a_demangled_name_with_commas_and_brackets_is_kept_whole() -> None:
    found = ptx.parse_ptxas((public("ptxas") / "sgemm_registers_info.txt").read_text(encoding="utf-8"))

    assert found[0].function == "kernel(unsigned int*, unsigned int*, int)"
    assert found[1].function == "tensorMatMul(__half*, __half*, __half*)"


def test_only_text_with_a_version_and_a_target_is_ptx() -> None:
    assert ptx.is_ptx(text("kernels_sm90.ptx"))
    assert not ptx.is_ptx((FIXTURES / "kernels.cu").read_text(encoding="utf-8"))
