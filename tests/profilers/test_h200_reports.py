"""The reports that were made for this project on an H200, whole, where they lie beside the checkout: each agrees with its kin."""

from __future__ import annotations

import csv
import shutil
import sqlite3
from pathlib import Path

import pytest
from kernel_reports import PUBLIC, read

from hotkernel.errors import ToolError
from hotkernel.profilers import ncu

H200 = PUBLIC.parent / "h200"
# In the order of the launches; microseconds as the page itself has them (the index gives those of another run).
REFERENCE = [32.77, 4.22, 2.46, 127.65, 35.78, 25.38, 2.24, 31.36, 4.22, 2.46, 127.84, 36.45, 25.34, 2.34]
NSYS = {
    "cunn_SoftMaxForwardReg": (265856, 2),
    "distribution_elementwise_grid_stride_kernel": (263710, 8),
    "nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT": (82240, 2),
    "rmsnorm_fwd_kernel": (80735, 6),
    "nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NNT": (48544, 2),
    "vectorized_elementwise_kernel": (3104, 2),
}


def h200(name: str) -> Path:
    path = H200 / name
    if not path.is_file():
        pytest.skip(f"{name} lies outside the checkout and is not here")
    return path


@pytest.mark.parametrize("name", ["ref_basic.details.csv", "ref_basic.details_base.csv"])
def test_the_fourteen_reference_launches_have_their_times_in_their_order(name):
    rows = sorted(read(h200(name)).kernels, key=lambda row: row.launch)

    assert [round(row.duration_us, 2) for row in rows] == REFERENCE


@pytest.mark.parametrize("name", ["nt.sqlite", "nt_cuda_gpu_kern_sum.csv", "nt_cuda_gpu_trace.csv"])
def test_each_form_of_the_nsys_report_gives_the_same_kernels(name):
    found = read(h200(name))

    assert {row.short_name: (row.total_ns, row.calls) for row in found.kernels} == NSYS
    assert (found.n_launches, found.kernel_time_us) == (22, 744.189)


def test_the_nsys_report_itself_is_read_by_its_export_or_says_what_it_needs(tmp_path):
    shutil.copy(h200("nt.nsys-rep"), tmp_path / "nt.nsys-rep")
    with pytest.raises(ToolError, match="nsys is not on this machine"):
        read(tmp_path / "nt.nsys-rep")
    shutil.copy(h200("nt.sqlite"), tmp_path / "nt.sqlite")

    assert {row.short_name: (row.total_ns, row.calls) for row in read(tmp_path / "nt.nsys-rep").kernels} == NSYS


def test_the_full_reports_pages_and_nvidias_reader_agree():
    pytest.importorskip("ncu_report")
    (raw,), (page,), (row,) = (read(h200(f"rms_full.{form}")).kernels for form in ("raw.csv", "details.csv", "ncu-rep"))

    for one in (raw, page):
        assert (one.short_name, one.grid, one.block, one.registers_per_thread) == (
            row.short_name, row.grid, row.block, row.registers_per_thread)
        assert one.duration_us == pytest.approx(row.duration_us, abs=0.0051)
        assert one.metrics.dram_bytes_per_s == pytest.approx(row.metrics.dram_bytes_per_s, rel=0.005)
        assert one.metrics.achieved_occupancy_pct == pytest.approx(row.metrics.achieved_occupancy_pct, abs=0.0051)
    assert raw.metrics.dram_read_bytes == pytest.approx(row.metrics.dram_read_bytes, rel=1e-3)


def test_the_raw_page_agrees_with_the_csv_module():
    with h200("more.raw.csv").open(encoding="utf-8", newline="") as file:
        naive = {row["Kernel Name"].split("(")[0]: row for row in csv.DictReader(file) if row["ID"]}

    for row in read(h200("more.raw.csv")).kernels:
        mine = next(line for name, line in naive.items() if row.short_name in name)
        assert row.registers_per_thread == int(mine["launch__registers_per_thread"])
        assert row.metrics.theoretical_occupancy_pct == float(mine["sm__maximum_warps_per_active_cycle_pct"])


def test_the_export_agrees_with_sql_on_every_launch():
    found = read(h200("nt.sqlite"))
    with sqlite3.connect(f"file:{h200('nt.sqlite')}?mode=ro&immutable=1", uri=True) as connection:
        spans = connection.execute('SELECT min("end" - start), max("end" - start) FROM CUPTI_ACTIVITY_KIND_KERNEL').fetchone()
    connection.close()

    assert min(row.min_us for row in found.kernels) * 1000 == pytest.approx(spans[0])
    assert max(row.max_us for row in found.kernels) * 1000 == pytest.approx(spans[1])


def test_a_run_that_went_well_has_no_cause_of_failure_and_its_words_alone_are_no_report():
    said = h200("ncu_basic_stdout.txt").read_text(encoding="utf-8")

    assert ncu.failure(said) is None
    assert ncu.warnings(said) == []
    with pytest.raises(ToolError, match="log of ncu without any result"):
        read(h200("ncu_basic_stdout.txt"))


def test_the_words_of_nsys_that_went_wrong_are_no_report():
    with pytest.raises(ToolError, match="not a report"):
        read(h200("nt.kern_sum.txt"))
