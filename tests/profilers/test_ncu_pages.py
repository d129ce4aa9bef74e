"""ncu's pages and reports: against a naive reading, against each other and against NVIDIA's own reader."""

import csv
import dataclasses

import pytest
from kernel_reports import OURS, read

from hotkernel.errors import ToolError
from hotkernel.machine import ncu_reader
from hotkernel.profilers import ncu_metrics, ncu_pages
from hotkernel.schema.profile import NcuMetrics

HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size","Grid Size",'
    '"Device","CC","Section Name","Metric Name","Metric Unit","Metric Value"\n'
)


def line(launch, name, metric, unit, value):
    where = '"1","7","(32, 1, 1)","(4, 1, 1)","0","9.0"'
    return f'"{launch}","7","a.out","127.0.0.1","{name}",{where},"S","{metric}","{unit}","{value}"\n'


def naive(path):
    """{(launch, metric): (value, unit)} by nothing but the csv module."""
    with open(path, encoding="utf-8", newline="") as file:
        return {
            (int(row["ID"]), row["Metric Name"], row["Metric Unit"]): row["Metric Value"]
            for row in csv.DictReader(file)
            if row["Metric Name"]
        }


def test_every_launch_is_a_row_in_the_order_of_its_time():
    found = read(OURS / "ref_basic.details.csv")

    by_hand = {key[0]: float(value) for key, value in naive(OURS / "ref_basic.details.csv").items() if key[1] == "Duration"}
    assert {row.launch: row.duration_us for row in found.kernels} == by_hand
    assert [row.duration_us for row in found.kernels] == sorted(by_hand.values(), reverse=True)
    in_order = [row.short_name for row in sorted(found.kernels, key=lambda row: row.launch)]
    assert in_order[:7] == [
        "rmsnorm_fwd_kernel",
        "rmsnorm_fwd_kernel",
        "rmsnorm_fwd_kernel",
        "cunn_SoftMaxForwardReg",
        "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT",
        "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT",
        "vectorized_elementwise_kernel",
    ]
    assert in_order[:7] == in_order[7:]


def test_base_units_and_scaled_units_are_the_same_launches():
    scaled, base = read(OURS / "ref_basic.details.csv"), read(OURS / "ref_basic.details_base.csv")

    assert [(row.launch, row.name, row.grid, row.registers_per_thread) for row in scaled.kernels] == [
        (row.launch, row.name, row.grid, row.registers_per_thread) for row in base.kernels
    ]
    for one, other in zip(scaled.kernels, base.kernels, strict=True):
        assert one.duration_us == pytest.approx(other.duration_us, abs=0.0051)
        assert one.metrics.sm_frequency_mhz == pytest.approx(other.metrics.sm_frequency_mhz, abs=5.1)
    assert any("rounded" in warning for warning in scaled.warnings)
    assert base.warnings == ()


def test_a_kernel_that_spills_is_seen_to_spill():
    spilly, matmul, softmax = read(OURS / "more.details.csv").kernels

    assert (spilly.short_name, spilly.metrics.spill_requests, spilly.metrics.stack_bytes) == (
        "spilly_kernel",
        288448,
        7376,
    )
    assert spilly.metrics.spill_share_pct == 35.49
    assert (matmul.metrics.spill_requests, softmax.metrics.spill_requests) == (0, 0)
    assert (matmul.registers_per_thread, matmul.bound_hint, spilly.bound_hint) == (107, "compute", "latency")


def test_the_raw_page_and_the_details_page_agree_to_the_printed_digits():
    details, raw = read(OURS / "more.details.csv"), read(OURS / "more.raw.csv")

    for page, row in zip(details.kernels, raw.kernels, strict=True):
        assert (page.name, page.grid, page.block, page.registers_per_thread) == (
            row.name,
            row.grid,
            row.block,
            row.registers_per_thread,
        )
        assert_agree(page.metrics, row.metrics)
        assert page.duration_us == pytest.approx(row.duration_us, abs=0.0051)


def test_nvidias_reader_and_the_details_page_of_one_report_agree():
    pytest.importorskip("ncu_report")
    (page,), (row,) = read(OURS / "rms_full.details.csv").kernels, read(OURS / "rms_full.ncu-rep").kernels

    assert (row.short_name, row.registers_per_thread, row.grid, row.block) == (
        "rmsnorm_fwd_kernel",
        64,
        (4096, 1, 1),
        (256, 1, 1),
    )
    assert row.total_ns == 31968
    assert page.duration_us == pytest.approx(row.duration_us, abs=0.0051)
    assert_agree(page.metrics, row.metrics)
    assert {(one.rule, one.kind) for one in page.advice} <= {(one.rule, one.kind) for one in row.advice}
    by_rule = {(one.rule, one.text): one for one in row.advice}
    for one in page.advice:
        same = by_rule[one.rule, one.text]
        assert same.scope == one.scope
        if one.estimated_speedup_pct is not None:
            assert same.estimated_speedup_pct == pytest.approx(one.estimated_speedup_pct, rel=1e-3)


def assert_agree(printed: NcuMetrics, exact: NcuMetrics):
    """What both hold is the same within two decimals of the printed unit."""
    compared = 0
    for field in dataclasses.fields(NcuMetrics):
        left, right = getattr(printed, field.name), getattr(exact, field.name)
        if left is not None and right is not None:
            assert left == pytest.approx(right, rel=0.005, abs=0.0051), field.name
            compared += 1
    assert compared >= 12


def test_ncus_metrics_are_nvidias_metrics():
    ncu_report = pytest.importorskip("ncu_report")
    action = ncu_report.load_report(str(OURS / "rms_full.ncu-rep")).range_by_idx(0).action_by_idx(0)
    metrics = read(OURS / "rms_full.ncu-rep").kernels[0].metrics

    def value(name):
        return action.metric_by_name(name).value()

    assert len(action.metric_names()) == 2243
    assert metrics.dram_throughput_pct == value("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed")
    assert metrics.achieved_occupancy_pct == value("sm__warps_active.avg.pct_of_peak_sustained_active")
    assert metrics.theoretical_occupancy_pct == 50
    assert metrics.dram_read_bytes == value("dram__bytes_read.sum")
    assert metrics.dynamic_smem_per_block == 32


def test_advice_with_the_largest_estimate_comes_first_and_notes_last():
    advice = read(OURS / "more.details.csv").kernels[0].advice

    estimates = [one.estimated_speedup_pct for one in advice if one.estimated_speedup_pct is not None]
    assert estimates == sorted(estimates, reverse=True)
    assert (advice[0].rule, advice[0].estimated_speedup_pct, advice[0].scope) == ("HighPipeUtilization", 99.65, "local")
    assert advice[-1].kind == "note"
    assert all(len(one.text) <= 300 for one in advice)


def test_a_source_page_is_no_report_of_launches():
    with pytest.raises(ToolError, match="source page"):
        read(OURS / "source_page.csv")


def test_a_european_file_is_not_wrong_by_a_thousand():
    text = HEADER + line(0, "f(int)", "Duration", "nsecond", "117.344") + line(0, "f(int)", "DRAM Throughput", "%", "65,77")

    (row,) = ncu_pages.parse(text).kernels

    assert (row.total_ns, row.metrics.dram_throughput_pct) == (117344, 65.77)


def test_one_duration_that_a_report_gives_twice_is_counted_once():
    text = HEADER + line(0, "f", "gpu__time_duration.sum", "us", "6.75") + line(0, "f", "Duration", "us", "6.75")

    found = ncu_pages.parse(text)

    assert (found.n_launches, found.kernel_time_us) == (1, 6.75)


def test_two_metrics_of_one_name_are_told_apart_by_their_units():
    text = HEADER + line(0, "f", "Memory Throughput", "%", "61.84") + line(0, "f", "Memory Throughput", "Gbyte/s", "196.46")

    (row,) = ncu_pages.parse(text).kernels

    assert (row.metrics.memory_throughput_pct, row.metrics.dram_bytes_per_s) == (61.84, 196.46e9)


def test_a_launch_without_a_duration_is_last_null_and_in_no_total():
    text = HEADER + line(0, "broken", "Duration", "us", "n/a") + line(1, "fine", "Duration", "us", "2.00")

    found = ncu_pages.parse(text)

    assert [(row.short_name, row.duration_us, row.pct) for row in found.kernels] == [
        ("fine", 2.0, 100.0),
        ("broken", None, None),
    ]
    assert "1 launches have no duration" in found.warnings[0]


def test_launches_of_two_processes_with_one_number_stay_apart():
    text = (
        HEADER
        + line(0, "f", "Duration", "us", "1.00")
        + line(0, "g", "Duration", "us", "2.00").replace('"7","a.out"', '"8","a.out"')
    )

    found = ncu_pages.parse(text)

    assert [(row.short_name, row.processes) for row in found.kernels] == [("g", (8,)), ("f", (7,))]
    assert [(one.pid, one.launches) for one in found.processes] == [(7, 1), (8, 1)]


def test_text_ahead_of_the_header_is_kept_as_a_note_where_ncu_warns():
    text = "\ufeff==WARNING== Unable to deploy section files\nhello, world\n" + HEADER + line(0, "f", "Duration", "us", "1.00")

    assert ncu_pages.parse(text).warnings == ("ncu warned: Unable to deploy section files",)


def test_one_roof_alone_gives_no_hint():
    assert ncu_metrics.bound_hint(NcuMetrics(sm_throughput_pct=80.8)) is None
    assert ncu_metrics.bound_hint(NcuMetrics(sm_throughput_pct=20.0, dram_throughput_pct=71.0)) == "memory"
    assert ncu_metrics.bound_hint(NcuMetrics(sm_throughput_pct=20.0, dram_throughput_pct=7.0)) == "latency"
    caches = NcuMetrics(sm_throughput_pct=20.0, dram_throughput_pct=7.0, memory_throughput_pct=85.0)
    assert ncu_metrics.bound_hint(caches) == "memory"


def test_the_details_page_for_people_gives_names_sizes_and_rules():
    text = (
        "==PROF== Disconnected from process 1\n[1] a.out@127.0.0.1\n"
        "  void f<int, 4>(float *, int) (1024, 1, 1)x(256, 1, 1), Context 1, Stream 7, Device 2, CC 9.0\n"
        "    Section: GPU Speed Of Light Throughput\n"
        "    ----------------- ----------- ------------\n"
        "    Metric Name       Metric Unit Metric Value\n"
        "    ----------------- ----------- ------------\n"
        "    Duration                   us         4.26\n"
        "    Elapsed Cycles          cycle    1,234,567\n"
        "    ----------------- ----------- ------------\n\n"
        "    OPT   Est. Local Speedup: 39.84%\n"
        "          The kernel waits for\n"
        "          memory.\n\n"
        "  g(int) (1, 1, 1)x(32, 1, 1), Context 1, Stream 7, Device 0, CC 9.0\n"
        "    Section: GPU Speed Of Light Throughput\n"
    )

    first, second = ncu_pages.parse(text).kernels

    assert (first.short_name, first.duration_us, first.grid, first.block, first.devices) == (
        "f",
        4.26,
        (1024, 1, 1),
        (256, 1, 1),
        (2,),
    )
    (advice,) = first.advice
    assert (advice.text, advice.estimated_speedup_pct, advice.scope) == ("The kernel waits for memory.", 39.84, "local")
    assert (second.short_name, second.duration_us) == ("g", None)


def test_a_file_that_only_looks_like_a_report_is_refused(tmp_path):
    pytest.importorskip("ncu_report")
    (tmp_path / "a.ncu-rep").write_bytes(b"NVR\0" + b"not a report at all " * 50)

    with pytest.raises(ToolError, match="cannot be read as an ncu report"):
        read(tmp_path / "a.ncu-rep")


def test_a_file_on_which_nvidias_reader_aborts_ends_a_child_and_not_the_server(tmp_path, monkeypatch):
    """Seen on 7 of 6,000 randomly damaged reports: a failed check in the library calls abort()."""
    pytest.importorskip("ncu_report")
    aborting = tmp_path / "reader.py"
    aborting.write_text("import os\nos.abort()\n", encoding="utf-8")
    monkeypatch.setattr(ncu_reader, "__file__", str(aborting))

    with pytest.raises(ToolError, match="NVIDIA's reader broke on it"):
        read(OURS / "rms_full.ncu-rep")
