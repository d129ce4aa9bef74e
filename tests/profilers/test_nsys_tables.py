"""What `nsys stats` prints: against the database of the same report and a naive reading, in every version's headers."""

import csv

import pytest
from kernel_reports import OURS, read

from hotkernel.errors import ToolError
from hotkernel.profilers import nsys_tables

SUMMARY = "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),Name\n"


@pytest.mark.parametrize("name", ["nt_cuda_gpu_kern_sum.csv", "nt_cuda_gpu_trace.csv"])
def test_the_csvs_and_the_database_of_one_report_agree(name):
    from_csv, from_database = read(OURS / name), read(OURS / "nt.sqlite")

    def told(found):
        return [(row.short_name, row.calls, row.device_time_us, row.min_us, row.max_us) for row in found.kernels]

    assert told(from_csv) == told(from_database)


def test_the_summary_agrees_with_a_naive_reading_of_the_csv():
    found = read(OURS / "nt_cuda_gpu_kern_sum.csv")

    with open(OURS / "nt_cuda_gpu_kern_sum.csv", encoding="utf-8", newline="") as file:
        naive = list(csv.DictReader(file))
    assert [row.total_ns for row in found.kernels] == [float(row["Total Time (ns)"]) for row in naive]
    assert [round(row.pct, 1) for row in found.kernels] == [float(row["Time (%)"]) for row in naive]


def test_a_summary_of_copies_says_so_and_one_of_api_calls_is_refused():
    memory = read(OURS / "nt_cuda_gpu_mem_time_sum.csv")

    assert (memory.kernels, memory.copies[0].name) == ((), "memcpy Device-to-Device")
    assert "copies" in memory.reason
    with pytest.raises(ToolError, match="not of kernels"):
        read(OURS / "nt_cuda_api_sum.csv")


@pytest.mark.parametrize(
    ("header", "row"),
    [
        (
            "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,StdDev,Name",
            '50.0,2000,2,1000.0,900,1100,1.0,"f<a, b>(int)"',
        ),
        (
            "Time(%),Total Time (ns),Instances,Average,Minimum,Maximum,Name",
            '50.0,2000,2,1000.0,900,1100,"f<a, b>(int)"',
        ),
        (
            "Time (%),Total Time (us),Instances,Avg (us),Med (us),Min (us),Max (us),StdDev (us),Name",
            '50.0,2.000,2,1.0,1.0,0.9,1.1,0.1,"f<a, b>(int)"',
        ),
        (
            "Time (%),Total Time (ns),Instances,Avg (ns),Med (ns),Min (ns),Max (ns),StdDev (ns),GridXYZ,BlockXYZ,Name",
            '50.0,2000,2,1000.0,1000.0,900,1100,1.0,   8    1    1,  64    1    1,"f<a, b>(int)"',
        ),
        (
            "Time (%);Total Time (ns);Instances;Avg (ns);Med (ns);Min (ns);Max (ns);StdDev (ns);Name",
            '50,0;2.000;2;1.000,0;1.000,0;900;1.100;1,5;"f<a, b>(int)"',
        ),
    ],
)
def test_headers_of_every_version_give_the_same_row(header, row):
    found = nsys_tables.parse(f"\ufeffGenerating SQLite file\n\n{header}\n{row}\n")

    (kernel,) = found.kernels
    assert (kernel.name, kernel.calls, kernel.total_ns, kernel.min_us, kernel.max_us) == (
        "f<a, b>(int)",
        2,
        2000,
        0.9,
        1.1,
    )
    assert kernel.grid == ((8, 1, 1) if "GridXYZ" in header else None)


def test_a_line_of_another_stream_within_the_table_is_left_out_and_told():
    text = (
        SUMMARY + '60.0,6000,1,6000.0,6000.0,6000,6000,0.0,"f(int)"\nSKIPPED: x.sqlite does not contain\n'
        '40.0,4000,2,2000.0,2000.0,2000,2000,0.0,"g(int)"\n'
    )

    found = nsys_tables.parse(text)

    assert [row.short_name for row in found.kernels] == ["f", "g"]
    assert "1 broken lines" in found.warnings[0]


def test_several_reports_in_one_file_do_not_run_into_each_other():
    text = (
        SUMMARY + '100.0,6000,1,6000.0,6000.0,6000,6000,0.0,"f(int)"\n\nProcessing [a] with [b]...\n'
        "Time (%),Total Time (ns),Count,Operation\n100.0,9,1,[CUDA memset]\n"
    )

    assert [row.short_name for row in nsys_tables.parse(text).kernels] == ["f"]


def test_rows_with_one_short_name_stay_apart():
    found = nsys_tables.parse(SUMMARY + '60.0,6000,1,1,1,1,1,0.0,"f<1>(int)"\n40.0,4000,2,1,1,1,1,0.0,"f<2>(int)"\n')

    assert [(row.short_name, row.calls) for row in found.kernels] == [("f<1>", 1), ("f<2>", 2)]


def test_a_skipped_report_is_no_kernel_with_the_likely_reasons():
    found = nsys_tables.parse("Processing [a.sqlite]...\nSKIPPED: a.sqlite does not contain CUDA kernel data.\n")

    assert found.kernels == ()
    assert "WSL2" in found.reason
