"""disasm and explain on real files with the real programs; nothing here needs CUDA or a GPU."""

from __future__ import annotations

import json
import lzma
import os
import shutil
import struct
import subprocess
import sys
import venv
from pathlib import Path

import pytest

from hotkernel.errors import ToolError
from hotkernel.machine import programs
from hotkernel.schema.disassembly import Disassembly
from hotkernel.schema.explanation import Explanation
from hotkernel.schema.plain import from_plain, to_plain
from hotkernel.session import Session
from hotkernel.tools.disassembly import EXPLANATION_CHARACTERS, PAGE_CHARACTERS, disasm, explain

FIXTURES = Path(__file__).parents[1] / "fixtures" / "sass"
PUBLIC = Path(__file__).parents[2].parent / "shared" / "fixtures" / "public"
SOURCE = Path(__file__).parents[2] / "src"


def has(*names: str) -> bool:
    try:
        return all(programs.find(name, os.environ) for name in names)
    except ToolError:
        return False


needs_disassemblers = pytest.mark.skipif(not has("nvdisasm", "cuobjdump"), reason="needs nvdisasm and cuobjdump")
needs_ptxas = pytest.mark.skipif(
    not has("nvdisasm", "cuobjdump", "ptxas"), reason="needs ptxas, nvdisasm and cuobjdump"
)


def session(root: Path = FIXTURES, **environment: str) -> Session:
    return Session(root=root, environment={**os.environ, **environment})


def unpacked(name: str, folder: Path) -> Path:
    path = folder / name
    path.write_bytes(lzma.decompress((FIXTURES / f"{name}.xz").read_bytes()))
    return path


def rules(result: Disassembly) -> set[str]:
    return {finding.rule for finding in result.findings}


# --- disasm: what a file is ------------------------------------------------------------------------------------------


@needs_disassemblers
def test_a_cubins_answer_has_the_originals_keys_and_findings_before_the_listing() -> None:
    plain = to_plain(disasm(session(), "matmul_kernel.cubin"))

    assert {"path", "level", "n_lines", "text", "truncated", "note"} <= set(plain)
    assert list(plain).index("findings") < list(plain).index("text")
    assert plain["level"] == "sass"
    assert plain["path"] == str(FIXTURES / "matmul_kernel.cubin")
    (kernel,) = plain["kernels"]
    assert (kernel["registers"], kernel["stack_bytes"], kernel["spill_loads"]) == (107, 0, 0)
    assert kernel["tensor_core"] == [{"opcode": "HGMMA.64x128x16.F32.BF16", "count": 4}]
    assert {"tensor-cores", "loop", "registers", "launch"} <= rules(disasm(session(), "matmul_kernel.cubin"))


@needs_disassemblers
def test_a_spilling_kernel_is_said_to_spill_and_stays_within_bounds(tmp_path: Path) -> None:
    unpacked("spilly_kernel.cubin", tmp_path)

    result = disasm(session(tmp_path), "spilly_kernel.cubin", max_lines=0)

    assert result.findings[0].rule == "spills"
    assert result.kernels[0].stack_bytes == 7368
    assert len(result.text) <= PAGE_CHARACTERS
    assert result.n_lines > 20_000
    assert len(json.dumps(to_plain(result))) < 20_000


@needs_disassemblers
def test_the_pages_hold_every_line_once_and_in_order() -> None:
    pages, offset = [], 0
    while True:
        result = disasm(session(), "kernels_sm90.cubin", max_lines=0, offset=offset)
        assert len(result.text) <= PAGE_CHARACTERS
        pages += result.text.split("\n")
        if result.next_offset is None:
            break
        assert result.truncated
        assert result.next_offset > offset
        offset = result.next_offset

    assert len(pages) == result.n_lines
    assert not result.truncated
    assert sum(line.startswith("Function : ") for line in pages) == result.n_kernels == 6


@needs_disassemblers
def test_max_lines_is_an_upper_bound_and_the_note_says_how_to_go_on() -> None:
    result = disasm(session(), "kernels_sm90.cubin", max_lines=7, offset=3)

    assert len(result.text.split("\n")) == 7
    assert result.next_offset == 10
    assert result.note == f"lines 3 to 9 of {result.n_lines}; call again with offset=10"


@needs_disassemblers
def test_the_same_call_gives_the_same_answer_and_leaves_no_file_behind(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "libkernels.so", tmp_path)

    first, second = (disasm(session(tmp_path), "libkernels.so", kernel="copy") for _ in range(2))

    assert first == second
    assert [path.name for path in tmp_path.iterdir()] == ["libkernels.so"]
    assert from_plain(Disassembly, json.loads(json.dumps(to_plain(first)))) == first


@needs_disassemblers
def test_a_library_shows_the_kernel_for_each_architecture_with_its_source_lines() -> None:
    result = disasm(session(), "libkernels.so", kernel="copy_wide")

    assert sorted((each.name, each.arch) for each in result.kernels) == [("copy_wide", "sm_80"), ("copy_wide", "sm_90")]
    assert result.n_kernels == 2
    assert all(each.registers for each in result.kernels)
    assert all(line.file == "kernels.cu" for each in result.kernels for line in each.source_lines)
    assert all(each.source_lines for each in result.kernels)


@needs_disassemblers
def test_a_library_read_through_cuobjdump_agrees_with_the_cubin_read_through_nvdisasm() -> None:
    (of_cubin,) = disasm(session(), "kernels_sm90.cubin", kernel="divide").kernels
    of_library = [each for each in disasm(session(), "libkernels.so", kernel="divide").kernels if each.arch == "sm_90"]

    assert of_library == [of_cubin]


@needs_disassemblers
def test_a_kernel_is_found_by_its_name_in_cpp() -> None:
    result = disasm(session(), "kernels_sm90.cubin", kernel="tiled_sum<128>(float const*, float*, int)")

    assert sorted(each.name for each in result.kernels) == [
        "_Z9tiled_sumILi128EEvPKfPfi",
        "_Z9tiled_sumILi256EEvPKfPfi",
    ]


@needs_disassemblers
def test_of_many_kernels_the_gravest_are_taken_apart_and_the_others_named() -> None:
    result = disasm(session(), "kernels_sm90.cubin")

    assert len(result.kernels) == 3
    assert len(result.other_kernels) == 3
    assert {each.name for each in result.other_kernels} >= {"copy_wide", "copy_bytes"}


@needs_disassemblers
@pytest.mark.parametrize("target", ["kernels_sm90.cubin", "libkernels.so", "kernels_sm90.ptx"])
def test_a_kernel_that_is_not_there_gives_the_names_that_are(target: str) -> None:
    with pytest.raises(ToolError, match=r"no kernel in .* contains 'nope'") as raised:
        disasm(session(), target, kernel="nope")

    assert "copy_wide" in raised.value.fix


@needs_disassemblers
def test_a_library_of_ptx_alone_says_so() -> None:
    with pytest.raises(ToolError, match=r"libptx\.so holds PTX and no machine code") as raised:
        disasm(session(), "libptx.so")

    assert "level=ptx" in raised.value.fix
    assert disasm(session(), "libptx.so", level="ptx").n_kernels == 6


@needs_disassemblers
def test_a_program_without_device_code_says_so() -> None:
    with pytest.raises(ToolError, match="holds no CUDA device code"):
        disasm(session(), str(Path(sys.executable).resolve()))


@needs_disassemblers
def test_each_kind_of_useless_file_gets_its_own_answer(tmp_path: Path) -> None:
    cubin = (FIXTURES / "kernels_sm90.cubin").read_bytes()
    amd = bytearray(cubin)
    struct.pack_into("<H", amd, 18, 224)
    wrong = {
        "cut.cubin": (cubin[:3000], "is cut off: it has 3,000 bytes"),
        "stub.cubin": (cubin[:20], "is cut off"),
        "empty.cubin": (b"", "is empty"),
        "amd.hsaco": (bytes(amd), "is code for an AMD GPU"),
        "notes.ptx": (b"hello\n", "is text, but not PTX"),
        "noise.so": (bytes(range(256)), "is none of"),
    }

    for name, (data, message) in wrong.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(ToolError) as raised:
            disasm(session(tmp_path), name)
        assert message in raised.value.message, name
        assert raised.value.fix
    with pytest.raises(ToolError, match="no such file"):
        disasm(session(tmp_path), "missing.cubin")
    with pytest.raises(ToolError, match="is no file but a folder"):
        disasm(session(tmp_path), str(tmp_path))


@needs_disassemblers
def test_an_offset_behind_the_end_is_an_error_that_says_where_the_end_is() -> None:
    with pytest.raises(ToolError, match="offset=99999 lies behind the listing's"):
        disasm(session(), "kernels_sm90.cubin", offset=99_999)


@needs_disassemblers
def test_an_architecture_that_the_disassembler_forgot_is_named_as_the_reason(tmp_path: Path) -> None:
    script = tmp_path / "nvdisasm"  # what CUDA 13 says of sm_61
    script.write_text(
        '#!/bin/sh\n[ "$1" = --version ] && { echo "release 99.9"; exit 0; }\n'
        'echo "nvdisasm fatal   : CUDA architecture \\"SM61\\" is deprecated." >&2\nexit 1\n',
        encoding="utf-8",
    )
    script.chmod(0o755)

    with pytest.raises(ToolError, match=r"nvdisasm 99\.9 no longer knows the architecture") as raised:
        disasm(session(HOTKERNEL_TOOL_DIRS=str(tmp_path)), "kernels_sm90.cubin")

    assert "older CUDA" in raised.value.fix
    assert "SM61" in raised.value.detail


@needs_disassemblers
@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("nvdisasm_sm61_removed_cuda13.txt", "no longer knows the architecture of kernels_sm90.cubin"),
        ("cuobjdump_sm61_removed_cuda13.txt", "no longer knows the architecture of kernels_sm90.cubin"),
        ("cuobjdump_no_device_code.txt", "holds no CUDA device code"),
        ("cuobjdump_dir.txt", "cannot read kernels_sm90.cubin"),
        ("cuobjdump_missing_file.txt", "cannot read kernels_sm90.cubin"),
    ],
)
def test_what_a_failing_disassembler_said_is_no_empty_success(tmp_path: Path, words: str, message: str) -> None:
    """The public words of failing tools, said by stand-ins: what the file is was read off its own head before."""
    said = PUBLIC / "tool_errors" / words
    if not said.exists():
        pytest.skip(f"no {said}")
    script = tmp_path / "nvdisasm"
    script.write_text(
        f'#!/bin/sh\n[ "$1" = --version ] && {{ echo "release 99.9"; exit 0; }}\ncat "{said}" >&2\nexit 255\n', encoding="utf-8"
    )
    script.chmod(0o755)

    with pytest.raises(ToolError, match=message) as refused:
        disasm(session(HOTKERNEL_TOOL_DIRS=str(tmp_path)), "kernels_sm90.cubin")

    assert refused.value.fix


# --- disasm: PTX -----------------------------------------------------------------------------------------------------


def test_ptx_needs_no_program_at_all() -> None:
    result = disasm(session(PATH=""), "matmul_kernel.ptx", level="ptx")

    assert (result.level, result.n_kernels, result.made_by) == ("ptx", 1, "the file itself")
    assert "ptx" in rules(result)
    assert result.kernels[0].registers is None
    assert result.kernels[0].spill_loads is None
    assert result.text.startswith("//\n// Generated by LLVM NVPTX Back-End")


@needs_disassemblers
def test_sass_of_a_ptx_file_is_that_of_the_cubin_beside_it() -> None:
    result = disasm(session(), "matmul_kernel.ptx")

    assert (result.level, result.kernels[0].registers) == ("sass", 107)
    assert result.warnings == ("this is matmul_kernel.cubin, which lies beside the PTX",)


def test_ptx_of_a_cubin_is_that_of_the_file_beside_it() -> None:
    result = disasm(session(), "matmul_kernel.cubin", level="ptx")

    assert result.level == "ptx"
    assert result.warnings == ("this is matmul_kernel.ptx, which lies beside matmul_kernel.cubin",)


@needs_ptxas
def test_a_lone_ptx_file_is_assembled_here_and_said_to_be(tmp_path: Path) -> None:
    shutil.copy(FIXTURES / "kernels_sm90.ptx", tmp_path)

    result = disasm(session(tmp_path), "kernels_sm90.ptx", kernel="local_array")

    assert result.level == "sass"
    assert result.warnings[0].startswith("assembled here by ptxas")
    assert (result.kernels[0].stack_bytes, result.kernels[0].spill_store_bytes) == (1024, 0)


@needs_disassemblers
def test_ptx_that_nobody_can_assemble_is_shown_as_ptx_with_the_reason(tmp_path: Path) -> None:
    text = (FIXTURES / "kernels_sm90.ptx").read_text(encoding="utf-8")
    version = next(line for line in text.splitlines() if line.startswith(".version"))
    (tmp_path / "future.ptx").write_text(text.replace(version, ".version 99.9"), encoding="utf-8")

    result = disasm(session(tmp_path), "future.ptx")

    assert result.level == "ptx"
    assert result.warnings[0].startswith("this is the PTX, not SASS: ")
    assert result.n_kernels == 6


# --- disasm: Triton's cache ------------------------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Triton's cache in a folder with a space in its name, the variant with 22 registers the newer one."""
    root = tmp_path / "a cache"
    shutil.copytree(FIXTURES / "triton-cache", root)
    for at, folder in enumerate(sorted(root.iterdir())):
        for path in folder.iterdir():
            os.utime(path, (1_700_000_000 + 100 * at, 1_700_000_000 + 100 * at))
    return root


@needs_disassemblers
def test_the_newest_cached_kernel_is_read_and_the_other_variants_are_listed(cache: Path) -> None:
    result = disasm(session(TRITON_CACHE_DIR=str(cache)), "triton-cache", kernel="rmsnorm")

    newer, older = result.variants
    assert (newer.chosen, older.chosen) == (True, False)
    assert result.path == newer.path
    assert (newer.num_warps, newer.num_stages, newer.shared_bytes, newer.target) == (8, 3, 32, "cuda:90")
    assert (newer.modified, newer.triton_version) == ("2023-11-14T22:15:00+00:00", "3.6.0")
    assert result.kernels[0].registers == 22
    assert "2 cached files fit" in result.warnings[0]
    assert disasm(session(), older.path).kernels[0].registers == 64


@needs_disassemblers
def test_a_touched_variant_becomes_the_newest(cache: Path) -> None:
    first = sorted(cache.iterdir())[0]
    os.utime(first / "rmsnorm_fwd_kernel.cubin", (1_800_000_000, 1_800_000_000))

    assert disasm(session(TRITON_CACHE_DIR=str(cache)), "triton-cache").kernels[0].registers == 64


def test_cached_ptx_is_found_without_any_program(cache: Path) -> None:
    result = disasm(session(TRITON_CACHE_DIR=str(cache), PATH=""), "triton-cache", level="ptx")

    assert result.path.endswith(".ptx")
    assert result.n_variants == 2


def test_the_cache_is_looked_for_in_the_home_folder(tmp_path: Path) -> None:
    (tmp_path / ".triton").mkdir()
    shutil.copytree(FIXTURES / "triton-cache", tmp_path / ".triton" / "cache")

    result = disasm(session(HOME=str(tmp_path), TRITON_CACHE_DIR="", TRITON_HOME=""), "triton-cache", level="ptx")

    assert result.path.startswith(str(tmp_path / ".triton" / "cache"))


def test_what_the_cache_lacks_is_told_with_what_it_has(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(ToolError, match="no cached kernel's name contains 'softmax'") as raised:
        disasm(session(TRITON_CACHE_DIR=str(cache)), "triton-cache", kernel="softmax")
    assert "rmsnorm_fwd_kernel" in raised.value.fix

    with pytest.raises(ToolError, match="there is no Triton cache at"):
        disasm(session(TRITON_CACHE_DIR=str(tmp_path / "none")), "triton-cache")

    (tmp_path / "rocm" / "X").mkdir(parents=True)
    (tmp_path / "rocm" / "X" / "add_kernel.hsaco").write_bytes(b"\x7fELF")
    with pytest.raises(ToolError) as raised:
        disasm(session(TRITON_CACHE_DIR=str(tmp_path / "rocm")), "triton-cache")
    assert "AMD" in raised.value.fix


def test_a_broken_metadata_file_costs_its_facts_and_nothing_else(cache: Path) -> None:
    for path in cache.glob("*/rmsnorm_fwd_kernel.json"):
        path.write_text("{", encoding="utf-8")

    result = disasm(session(TRITON_CACHE_DIR=str(cache)), "triton-cache", level="ptx")

    assert [each.num_warps for each in result.variants] == [None, None]


# --- no CUDA on the machine ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without any package: neither NVIDIA's wheels nor ncu-report."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    return folder / "bin" / "python"


def said_by(python: Path, call: str) -> str:
    code = (
        "from pathlib import Path\nfrom hotkernel.session import Session\nfrom hotkernel.errors import ToolError\n"
        "from hotkernel.tools.disassembly import disasm, explain\n"
        f"session = Session(root=Path({str(FIXTURES)!r}), environment={{'PATH': ''}})\n"
        f"try:\n    {call}\nexcept ToolError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [python, "-c", code], env={"PYTHONPATH": str(SOURCE)}, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.skipif(any(Path("/usr/local").glob("cuda*/bin/nvdisasm")), reason="this machine has a CUDA toolkit")
def test_without_the_disassemblers_the_error_has_the_line_that_installs_them(bare_python: Path) -> None:
    said = said_by(bare_python, "disasm(session, 'matmul_kernel.cubin')")

    assert said.startswith(
        "SASS needs nvdisasm and cuobjdump, and they are not on this machine -> pip install "
        "nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm"
    )


def test_without_ncu_report_the_error_has_the_line_that_installs_it(bare_python: Path) -> None:
    said = said_by(bare_python, "explain(session, 'rms_full.ncu-rep.xz')")

    assert "pip install ncu-report" in said


# --- explain ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("ncu_report", reason="needs NVIDIA's ncu-report")
    return unpacked("rms_full.ncu-rep", tmp_path_factory.mktemp("report"))


def test_an_explanation_has_findings_python_lines_stalls_and_sass_within_its_bound(report: Path) -> None:
    result = explain(session(report.parent), report.name)

    assert result.kernel == "rmsnorm_fwd_kernel"
    assert {"stall", "bound", "occupancy"} <= {finding.rule for finding in result.findings}
    assert (result.lines[0].line, result.lines[0].stalls[0].reason) == (7, "long_scoreboard")
    assert result.lines[0].instructions[0].sass == "PRMT R30, R12, 0x7632, R30"
    assert result.samples == 3759
    assert len(json.dumps(to_plain(result))) <= EXPLANATION_CHARACTERS
    assert from_plain(Explanation, json.loads(json.dumps(to_plain(result)))) == result


def test_against_itself_nothing_changed_and_the_bound_still_holds(report: Path) -> None:
    result = explain(session(report.parent), report.name, against=report.name)

    assert result.difference is not None
    assert result.difference.speedup == 1.0
    assert result.difference.stalls
    assert len(json.dumps(to_plain(result))) <= EXPLANATION_CHARACTERS
    assert result.lines
    assert any("not a verdict" in warning for warning in result.warnings)


def test_two_cards_and_two_clocks_are_warned_of(report: Path) -> None:
    other = PUBLIC / "ncu_rep" / "sm120_shared_memory.ncu-rep"
    if not other.exists():
        pytest.skip(f"no {other}")

    result = explain(session(), str(other), against=str(report))

    assert any("two cards: NVIDIA H200 before, NVIDIA GeForce RTX 5070 Ti" in warning for warning in result.warnings)
    assert any("SM clock was 2026 MHz before" in warning for warning in result.warnings)
    assert any("no line information" in warning for warning in result.warnings)
    assert result.difference is not None
    assert "rmsnorm_fwd_kernel" in result.difference.why


def test_a_report_without_samples_says_what_to_profile_with() -> None:
    other = PUBLIC / "ncu_rep" / "esmm_profile_small.ncu-rep"
    if not other.exists():
        pytest.skip(f"no {other}")
    pytest.importorskip("ncu_report")

    result = explain(session(), str(other), kernel="vectorized")

    assert result.figures.duration_us is None
    assert (result.samples, result.lines) == (None, ())
    assert any("could not measure" in warning for warning in result.warnings)
    assert any("--set full" in warning for warning in result.warnings)
    with pytest.raises(ToolError, match="no launch in") as raised:
        explain(session(), str(other), kernel="nope")
    assert "esmm_shmem_multi2" in raised.value.fix


def test_a_cubin_is_no_report() -> None:
    pytest.importorskip("ncu_report")

    with pytest.raises(ToolError, match="is not a report of Nsight Compute"):
        explain(session(), "matmul_kernel.cubin")


def test_a_reader_that_aborts_on_a_report_costs_an_error_and_not_the_server(report: Path, tmp_path, monkeypatch) -> None:
    write = "import os\ndef load_report(path):\n    os.abort()\n"
    (tmp_path / "ncu_report.py").write_text(write, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(ToolError, match="NVIDIA's reader broke on it"):
        explain(session(report.parent), report.name)


def test_a_reader_that_does_not_load_is_not_called_a_damaged_file(report: Path, tmp_path, monkeypatch) -> None:
    (tmp_path / "ncu_report.py").write_text("raise ImportError('libc of another age')\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    with pytest.raises(ToolError, match="does not load: libc of another age") as refused:
        explain(session(report.parent), report.name)

    assert "hotkernel[ncu]" in refused.value.fix
