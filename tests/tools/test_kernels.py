"""torch_trace and top_kernels: real scripts under the real profiler on the CPU, and saved reports of every kind."""

from __future__ import annotations

import gzip
import json
import os
import sys

import pytest
from stand_ins import BASELINE, CANDIDATE, REPORTS, executable, session, write

from hotkernel.errors import ToolError
from hotkernel.profilers import trace
from hotkernel.schema.plain import to_plain
from hotkernel.session import Session
from hotkernel.tool import Tool
from hotkernel.tools import LISTED, kernels

SCRIPT = """
import os, sys
import torch
import sibling
assert __name__ == "__main__" and sys.argv[1:] == ["a", "-b"], sys.argv
x, w = torch.randn(64, 1024), torch.randn(1024, 1024)
for _ in range(5):
    y = (x @ w).relu().softmax(-1)
assert "HOTKERNEL_CAPTURE" not in os.environ
assert not any("hotkernel_contract" in entry for entry in sys.path), sys.path
"""


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("traced")
    write(folder / "script.py", SCRIPT)
    write(folder / "sibling.py", "")
    return kernels.torch_trace(session(folder, CUDA_VISIBLE_DEVICES=""), "script.py", top=6, args=["a", "-b"])


def test_a_script_sees_what_plain_python_shows_it(traced):
    assert traced.script_exit_code == 0
    assert traced.warnings == ()


def test_operators_of_a_cpu_script_are_ranked_by_cpu_time_with_their_shapes(traced):
    product = next(op for op in traced.ops if op.name == "aten::mm")

    assert (product.input_shapes, product.calls, product.device_time_us) == (("[64,1024]", "[1024,1024]"), 5, None)
    assert product.avg_us == pytest.approx(product.cpu_time_us / 5)
    assert [op.cpu_time_us for op in traced.ops] == sorted((op.cpu_time_us for op in traced.ops), reverse=True)
    assert len(traced.ops) == 6
    assert traced.truncated


def test_without_a_gpu_there_is_no_kernel_and_the_answer_says_so(traced):
    assert (traced.kernels, traced.total_kernel_time_us, traced.device, traced.gpu_idle_pct) == ((), None, "cpu", None)
    assert "ranked by CPU time" in traced.reason
    assert traced.scope == trace.WHOLE_SCOPE


@pytest.mark.slow
def test_of_a_target_only_its_own_calls_are_counted(tmp_path):
    pytest.importorskip("torch")
    write(tmp_path / "twice_baseline.py", BASELINE)
    write(tmp_path / "twice_candidate.py", CANDIDATE)

    ran = kernels.torch_trace(session(tmp_path, CUDA_VISIBLE_DEVICES=""), "twice_candidate.py", top=200)

    assert (ran.scope, ran.warnings) == (trace.TARGET_SCOPE, ())
    assert [(op.name, op.input_shapes) for op in ran.ops] == [("aten::add", ("[64,64]", "[64,64]"))]


@pytest.mark.slow
def test_a_script_that_raises_is_an_error_with_its_traceback(tmp_path):
    pytest.importorskip("torch")
    write(tmp_path / "script.py", "def f():\n    raise KeyError('lost')\nf()\n")

    with pytest.raises(ToolError, match=r"failed under torch\.profiler: KeyError") as refused:
        kernels.torch_trace(session(tmp_path), "script.py")

    assert "KeyError: 'lost'" in refused.value.detail


def test_an_interpreter_without_torch_is_named(tmp_path):
    write(tmp_path / "script.py", "")
    python = executable(tmp_path / "python", f'exec "{sys.executable}" -S -I "$@"')

    with pytest.raises(ToolError) as refused:
        kernels.torch_trace(session(tmp_path, HOTKERNEL_PYTHON=str(python)), "script.py")

    assert "torch cannot be imported" in refused.value.detail


def test_a_script_that_ends_its_process_leaves_a_clear_error(tmp_path):
    write(tmp_path / "script.py", "")
    python = executable(tmp_path / "python", "echo last words >&2; exit 7")

    with pytest.raises(ToolError, match="exit status 7") as refused:
        kernels.torch_trace(session(tmp_path, HOTKERNEL_PYTHON=str(python)), "script.py")

    assert "last words" in refused.value.detail


def test_a_script_that_is_not_there_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(ToolError, match="no such file"):
        kernels.torch_trace(session(tmp_path, HOTKERNEL_PYTHON="/nowhere"), "script.py")


def top(name: str, **more):
    return kernels.top_kernels(Session(root=REPORTS, environment={"PATH": ""}), name, **more)


@pytest.mark.parametrize(
    ("name", "tool", "form"),
    [
        ("nt.sqlite", "nsys", "sqlite"),
        ("nt_cuda_gpu_kern_sum.csv", "nsys", "csv"),
        ("nt_cuda_gpu_trace.csv", "nsys", "trace csv"),
        ("more.details.csv", "ncu", "csv"),
        ("more.raw.csv", "ncu", "raw csv"),
        ("torch_trace.json.gz", "torch", "trace"),
    ],
)
def test_the_file_itself_says_what_wrote_it(name, tool, form):
    found = top(name)

    assert (found.tool, found.form, found.kernels[0].calls > 0) == (tool, form, True)


def test_a_wrong_ending_does_not_mislead(tmp_path):
    (tmp_path / "report.csv").write_bytes((REPORTS / "nt.sqlite").read_bytes())
    (tmp_path / "trace.txt").write_bytes(gzip.decompress((REPORTS / "torch_trace.json.gz").read_bytes()))
    here = Session(root=tmp_path, environment={"PATH": ""})

    assert kernels.top_kernels(here, "report.csv").form == "sqlite"
    assert kernels.top_kernels(here, "trace.txt").n_launches == 50


def test_a_file_written_by_a_powershell_redirect_is_read(tmp_path):
    text = (REPORTS / "nt_cuda_gpu_kern_sum.csv").read_text(encoding="utf-8")
    (tmp_path / "a.csv").write_bytes(text.encode("utf-16"))

    assert kernels.top_kernels(Session(root=tmp_path, environment={"PATH": ""}), "a.csv").n_launches == 22


def test_the_file_wins_over_a_tool_that_is_named_wrongly():
    found = top("nt.sqlite", tool="ncu")

    assert found.tool == "nsys"
    assert "nsys wrote this file" in found.warnings[-1]


def test_n_rows_are_given_and_the_totals_are_of_all():
    found = top("nt.sqlite", n=2)

    assert (len(found.kernels), found.n_kernels_total, found.n_launches, found.truncated) == (2, 6, 22, True)
    assert found.total_gpu_time_ns == 744189


@pytest.mark.parametrize("n", [0, -1, 201])
def test_a_number_of_rows_out_of_bounds_is_refused(n):
    with pytest.raises(ToolError, match="out of bounds"):
        top("nt.sqlite", n=n)


def test_the_older_name_of_report_is_understood_at_the_doors():
    listed = next(each for each in LISTED if each.name == "top_kernels")
    tool: Tool = listed.load()

    assert tool.read({"summary_csv": "a.csv"}) == {"report": "a.csv"}


def test_rows_have_one_shape_whatever_program_said_it():
    shapes = {
        tuple(to_plain(top(name).kernels[0])) for name in ("nt.sqlite", "more.details.csv", "torch_trace.json.gz")
    }

    assert len(shapes) == 1
    assert {
        "name",
        "short_name",
        "calls",
        "device_time_us",
        "avg_us",
        "pct",
        "time_pct",
        "total_ns",
        "duration_us",
        "bound_hint",
    } <= set(shapes.pop())


def test_an_answer_is_the_same_each_time_and_bounded():
    answers = [json.dumps(to_plain(top("ref_basic.details.csv"))) for _ in range(2)]

    assert answers[0] == answers[1]
    assert len(answers[0]) < 24_000  # some 8,000 tokens
    assert [len(row.advice) for row in top("more.details.csv").kernels] == [3, 2, 2]


def test_a_report_of_many_processes_names_the_first_and_says_that_there_are_more(tmp_path):
    lines = (REPORTS / "ref_basic.details.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    launch = [line for line in lines[1:] if line.startswith('"0"')]
    many = [line.replace(launch[0].split(",")[1], f'"{process}"', 1) for process in range(500, 560) for line in launch]
    (tmp_path / "many.csv").write_text("".join([lines[0], *many]), encoding="utf-8")

    found = kernels.top_kernels(Session(root=tmp_path, environment={"PATH": ""}), "many.csv", n=60)

    assert (found.n_launches, len(found.kernels), found.truncated) == (60, 60, True)
    assert [process.pid for process in found.processes] == list(range(500, 520))


def test_a_raw_stream_of_nsys_is_no_report_and_the_answer_says_what_makes_it_one(tmp_path):
    (tmp_path / "a.qdstrm").write_bytes(b"\x00\x01 stream \x00" * 100)

    with pytest.raises(ToolError, match="raw stream, no report yet") as refused:
        kernels.top_kernels(Session(root=tmp_path, environment={"PATH": ""}), "a.qdstrm")

    assert "libdw1 libelf1" in refused.value.fix
    assert f"QdstrmImporter -i {tmp_path / 'a.qdstrm'}" in refused.value.fix


def test_a_missing_report_is_refused_in_a_sentence():
    with pytest.raises(ToolError, match="no such file"):
        top("missing.csv")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root reads everything")
def test_a_report_that_may_not_be_read_is_refused_in_a_sentence(tmp_path):
    path = tmp_path / "a.csv"
    path.touch(mode=0o000)

    with pytest.raises(ToolError, match="cannot be read"):
        kernels.top_kernels(Session(root=tmp_path, environment={"PATH": ""}), "a.csv")
