"""Every public report yields the values that its index gives; those were computed without this project."""

import csv
import gzip
import json
import sqlite3
from collections import defaultdict

import pytest
from kernel_reports import PUBLIC, public, read

from hotkernel.errors import ToolError
from hotkernel.schema.plain import to_plain
from hotkernel.session import Session
from hotkernel.tools import kernels

# file; rows; launches; kernel time in ns; the top row's short name begins with; its time in ns; its calls
NSYS = [
    (
        "nsys_csv/nsys2025_dsocr_all_cuda_gpu_kern_sum.csv",
        113,
        1695983,
        4946064742,
        "gemvx::kernel",
        1231822285,
        329035,
    ),
    ("nsys_csv/nsys2025_dsocr_clip_cuda_gpu_kern_sum.csv", 19, None, 3424837, "cutlass::Kernel2", 907697, 22),
    ("nsys_csv/nsys2025_dsocr_decode_cuda_gpu_kern_sum.csv", 46, None, 179072697, "gemvx::kernel", 61602133, 16448),
    ("nsys_csv/nsys2025_example_cuda_gpu_kern_sum.csv", 128, None, 634727919, "gemvx::kernel", 190723047, 51146),
    ("nsys_sqlite/h100_2gpu_1s.sqlite", 41, 3442, 44829522, "sm80_xmma_gemm_", 31121662, 248),
    ("nsys_sqlite/nsys2020_mordred_small.sqlite", 2, 12, 8544420, "probe_group_by_GPU2", 8419851, 3),
    (
        "nsys_sqlite/nsys2025_nsightful_power_iteration.sqlite",
        10,
        3689,
        1131742684,
        "gemv2T_kernel_val",
        1074732935,
        432,
    ),
    ("nsys_text/nsys2025_pytorch_cs336_compile.txt", 2, 30, 78270, "multi_tensor_apply_kernel", 49502, 10),
    ("nsys_text/nsys2025_pytorch_cs336_stats.txt", 23, 7328, None, "ampere_sgemm_128x64_tn", 2991054425, 900),
]
TRACES = [
    ("deepseek_v3_trace_ch13.json", 50, 179, 507760, "magma_sgemmEx_kernel", 28705, 8),
    ("hta_alexnet_2023.json.gz", None, 79, 10692000, "ampere_sgemm_32x32_sliced1x4_tn", 2621000, 6),
    ("hta_event_sync.json.gz", None, 4, 49000, "spin_kernel", 36000, 1),
    ("hta_large_integer.json.gz", 1, 1, 50000, "ncclKernel_AllReduce", 50000, 1),
    ("hta_ns_resolution_rank0.json.gz", None, 4350, 468153602, "vectorized_elementwise_kernel", 26303973, 160),
    ("hta_triton_example.json.gz", 1, 1, 2240, "triton_", 2240, 1),
    ("tracelens_b200_eager.json.gz", None, 768, 10862916, "bmm_MxE4m3_", 3181785, 36),
    ("tracelens_h100_bert_small.json.gz", None, 60, 307197, "cutlass::Kernel2", 98718, 17),
    ("tracelens_mi210_gpu_only.json.gz", None, 562, 5343422, "batch_norm_backward_kernel", 844938, 20),
    ("tracelens_mi300_vllm_decode_graph.json.gz", None, 425, 10674517, "_matmul_ogs_NNT_", 3761878, 24),
    ("tracelens_nv_moe_tiny.json.gz", None, 36, 234208, "vectorized_gather_kernel", 79136, 6),
    ("tracelens_sglang_qwen3_decode.json.gz", None, 555, 9765437, "Cijk_", 2417659, 36),
]


@pytest.mark.parametrize(
    "case", [*NSYS, *((f"torch_trace/{case[0]}", *case[1:]) for case in TRACES)], ids=lambda case: case[0]
)
def test_rows_totals_and_the_top_kernel_are_the_indexs(case):
    name, rows, launches, total_ns, top_name, top_ns, top_calls = case

    found = read(public(name))

    top = found.kernels[0]
    assert (top.short_name.startswith(top_name), top.total_ns, top.calls) == (True, top_ns, top_calls)
    assert rows in (None, len(found.kernels))
    assert launches in (None, found.n_launches)
    assert total_ns in (None, round(found.kernel_time_us * 1000))
    assert found.reason is None
    names_are_whole = found.form != "text"
    assert not names_are_whole or len({row.short_name for row in found.kernels}) == len(found.kernels)


@pytest.mark.parametrize("case", NSYS[4:7], ids=lambda case: case[0])
def test_a_database_agrees_with_plain_sql(case):
    path = public(case[0])

    with sqlite3.connect(f"file:{path}?mode=ro&immutable=1", uri=True) as connection:
        by_sql = connection.execute(
            'SELECT count(*), sum("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL GROUP BY demangledName'
        ).fetchall()
    connection.close()

    assert sorted((row.calls, row.total_ns) for row in read(path).kernels) == sorted(by_sql)


@pytest.mark.parametrize("case", TRACES, ids=lambda case: case[0])
def test_a_trace_agrees_with_a_naive_sum(case):
    path = public(f"torch_trace/{case[0]}")
    content = path.read_bytes()
    events = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)["traceEvents"]

    by_hand = defaultdict(float)
    for event in events:
        if event.get("cat") == "kernel":
            by_hand[event["name"]] += event["dur"]

    assert [row.device_time_us for row in read(path).kernels] == pytest.approx(sorted(by_hand.values(), reverse=True))


@pytest.mark.parametrize("case", NSYS[:4], ids=lambda case: case[0])
def test_a_csv_agrees_with_the_csv_module(case):
    path = public(case[0])

    with open(path, encoding="utf-8", newline="") as file:
        naive = [(int(row["Instances"]), float(row["Total Time (ns)"])) for row in csv.DictReader(file)]

    assert sorted((row.calls, row.total_ns) for row in read(path).kernels) == sorted(naive)


@pytest.mark.parametrize(
    "name",
    [
        "nsys_sqlite/nsys2024_python_c_nvidia.sqlite",
        "nsys_sqlite/nsys2025_jacc_async_julia.sqlite",
        "nsys_sqlite/nsys2025_jacc_julia.sqlite",
        "torch_trace/hta_cupti_profiler.json.gz",
        "torch_trace/hta_no_distributed_info.json.gz",
    ],
)
def test_a_report_with_no_kernel_says_why(name):
    found = read(public(name))

    assert (found.kernels, found.kernel_time_us) == ((), None)
    assert found.reason


def test_two_devices_and_two_processes_are_apart():
    found = read(public("nsys_sqlite/h100_2gpu_1s.sqlite"))

    assert [(one.device, one.kernel_us) for one in found.devices] == [(0, 22385.163), (1, 22444.359)]
    assert [(one.pid, one.kernel_us) for one in found.processes] == [(111, 22385.163), (112, 22444.359)]
    assert found.kernels[0].devices == (0, 1)


def test_work_hidden_in_graphs_is_told():
    assert (
        "CUDA graphs were launched 10 times" in read(public("nsys_text/nsys2025_pytorch_cs336_compile.txt")).warnings[0]
    )


NCU = [  # file; duration in us; what else the index gives
    ("ncu2025_gb200_ragged_rows.log", 406.24, {"registers_per_thread": 168, "grid": (9, 32, 1), "block": (384, 1, 1)}),
    ("ncu2025_t4_numba_details.csv", 21058.944, {"registers_per_thread": 32, "short_name": "copy_blocked"}),
    ("ncu2026_win_rtx5070_bom_gemm_register_blocked.csv", 2970.912, {"short_name": "gemm_register_blocked_kernel"}),
    ("ncu2026_win_rtx5070_bom_transpose_tiled.csv", 85.824, {"short_name": "transpose_tiled_kernel"}),
    ("ncu_details_rtx5090_gemv.csv", 6.75, {"calls": 1}),
    ("ncu_metrics_only_gemv.csv", 6.75, {"calls": 1}),
    ("ncu_section_roofline_chart.csv", None, {"short_name": "unrolled_elementwise_kernel"}),
]


@pytest.mark.parametrize(("name", "duration_us", "facts"), NCU, ids=lambda case: case if isinstance(case, str) else "")
def test_a_page_of_ncu_is_one_launch_with_the_indexs_values(name, duration_us, facts):
    (row,) = read(public(f"ncu_csv/{name}")).kernels

    assert row.duration_us == duration_us
    assert {key: getattr(row, key) for key in facts} == facts


def test_metrics_of_one_name_are_kept_apart():
    metrics = read(public("ncu_csv/ncu2025_t4_numba_details.csv")).kernels[0].metrics

    assert (metrics.memory_throughput_pct, metrics.dram_bytes_per_s) == (61.84, 196456177859.63)
    assert metrics.achieved_occupancy_pct == 96.26


def test_frequencies_and_occupancy_of_a_details_page():
    metrics = read(public("ncu_csv/ncu_details_rtx5090_gemv.csv")).kernels[0].metrics

    assert metrics.dram_frequency_mhz == pytest.approx(13720)
    assert metrics.achieved_occupancy_pct == 11.32


def test_the_page_for_people_is_read():
    (row,) = read(public("ncu_text/ncu_nsightful_copy_blocked.txt")).kernels

    assert (row.duration_us, row.grid, row.block) == (20850, (1024,), (256,))
    assert (row.metrics.memory_throughput_pct, row.metrics.sm_throughput_pct) == (61.71, 1.31)
    assert row.advice[0].kind == "opt"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ncu_csv/ncu_source_page_sm120.csv", "source page"),
        ("ncu_text/ncu_llmc_fp32_no_counters.txt", "ERR_NVGPUCTRPERM"),
        ("ncu_text/ncu_driver_incompatible_trt.txt", "do not fit"),
        ("torch_trace/blackwellm_moe_node_trace.json", "not a torch.profiler trace"),
    ],
)
def test_what_holds_no_launch_is_refused_with_its_cause(name, message):
    with pytest.raises(ToolError, match=message):
        read(public(name))


@pytest.mark.parametrize(
    ("name", "times"),
    [
        (
            "esmm_profile_small",
            {
                "esmm_shmem_multi": 139914240,
                "esmm_shmem_multi2": 90892608,
                "esmm_shmem_multi3": 90236288,
                "vectorized_blocktiling": None,
            },
        ),
        ("mojo_sm", {"warmingUp": 1600, "mathKernel2": 1568, "mathKernel3": 1504, "mathKernel1": 1472}),
        ("sm120_shared_memory", {"vector_smem": 2752}),
    ],
)
def test_nvidias_reports_give_the_indexs_launches(name, times):
    pytest.importorskip("ncu_report")

    found = read(public(f"ncu_rep/{name}.ncu-rep"))

    assert [(row.short_name, row.total_ns) for row in found.kernels] == list(times.items())


def test_every_answer_is_the_same_each_time_and_below_8000_tokens():
    public("INDEX.md")
    files = [path for path in sorted(PUBLIC.rglob("*")) if path.parent.name.startswith(("ncu_", "nsys_", "torch_"))]
    here, answered = Session(root=PUBLIC, environment={"PATH": ""}), 0
    refused = []
    for path in files:
        try:
            answers = [json.dumps(to_plain(kernels.top_kernels(here, str(path)))) for _ in range(2)]
        except ToolError as error:
            refused.append(error)
            continue
        answered += 1
        assert answers[0] == answers[1], path.name
        assert len(answers[0]) < 24_000, path.name

    assert answered > 30
    assert all(error.fix for error in refused)
