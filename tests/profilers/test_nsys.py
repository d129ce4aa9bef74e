"""nsys's database against plain SQL, and what it says when there are no kernels, graphs or a raw stream alone."""

import itertools
import os
import sqlite3

import pytest
from kernel_reports import OURS, read

from hotkernel.errors import ToolError
from hotkernel.profilers import nsys


def test_the_database_gives_what_plain_sql_gives():
    found = read(OURS / "nt.sqlite")

    with sqlite3.connect(OURS / "nt.sqlite") as connection:
        by_sql = connection.execute(
            'SELECT s.value, count(*), sum(k."end" - k.start), min(k."end" - k.start), max(k."end" - k.start) '
            "FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN StringIds s ON s.id = k.demangledName GROUP BY 1 ORDER BY 3 DESC"
        ).fetchall()
    connection.close()
    ours = [(row.calls, row.total_ns, row.min_us * 1000, row.max_us * 1000) for row in found.kernels]
    assert ours == [pytest.approx(row[1:]) for row in by_sql]
    assert [row.name for row in found.kernels] == [nsys.kernel_names.cut(row[0]) for row in by_sql]


def test_the_database_gives_the_values_that_nsys_stats_gave():
    found = read(OURS / "nt.sqlite")

    assert (found.n_launches, found.kernel_time_us, len(found.kernels)) == (22, 744.189, 6)
    top = found.kernels[0]
    assert (top.short_name, top.total_ns, top.calls) == ("cunn_SoftMaxForwardReg", 265856, 2)
    assert top.time_pct == pytest.approx(35.7, abs=0.05)
    assert (top.grid, top.block, top.registers_per_thread, top.shared_bytes) == ((4096, 1, 1), (1024, 1, 1), 37, 128)
    assert [(row.total_ns, row.calls) for row in found.kernels[1:]] == [
        (263710, 8),
        (82240, 2),
        (80735, 6),
        (48544, 2),
        (3104, 2),
    ]


def test_copies_are_apart_and_in_no_share():
    found = read(OURS / "nt.sqlite")

    (copy,) = found.copies
    assert (copy.name, copy.calls, copy.device_time_us, copy.moved_bytes) == (
        "memcpy Device-to-Device",
        2,
        63.711,
        134217728,
    )
    assert sum(row.pct for row in found.kernels) == pytest.approx(100)


def test_idle_time_is_what_kernels_and_copies_leave_of_the_window():
    (device,) = read(OURS / "nt.sqlite").devices

    with sqlite3.connect(OURS / "nt.sqlite") as connection:
        spans = sorted(
            connection.execute(
                'SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_KERNEL UNION ALL '
                'SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_MEMCPY'
            )
        )
    connection.close()
    assert all(one[1] <= two[0] for one, two in itertools.pairwise(spans))  # one stream: nothing overlaps
    assert device.name == "NVIDIA H200"
    assert device.busy_us == pytest.approx(sum(end - start for start, end in spans) / 1000)
    assert device.window_us == pytest.approx((spans[-1][1] - spans[0][0]) / 1000)
    assert device.idle_pct == pytest.approx(100 - 100 * device.busy_us / device.window_us)


def test_a_report_beside_its_export_is_read_without_nsys(tmp_path):
    (tmp_path / "a.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 3639")
    (tmp_path / "a.sqlite").write_bytes((OURS / "nt.sqlite").read_bytes())

    found = read(tmp_path / "a.nsys-rep")

    assert found.n_launches == 22
    assert "a.sqlite" in found.warnings[0]


def test_a_report_whose_export_is_older_needs_nsys(tmp_path):
    (tmp_path / "a.nsys-rep").write_bytes(b"NVIDIA Tegra Profiler Report 3639")
    (tmp_path / "a.sqlite").write_bytes((OURS / "nt.sqlite").read_bytes())
    os.utime(tmp_path / "a.sqlite", (1, 1))

    with pytest.raises(ToolError, match="nsys is not on this machine"):
        read(tmp_path / "a.nsys-rep")


def database(path, *statements):
    with sqlite3.connect(path) as connection:
        for statement in ("CREATE TABLE StringIds (id INTEGER, value TEXT)", *statements):
            connection.execute(statement)
    connection.close()
    return path


KERNEL = "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, demangledName, graphNodeId)"
RUNTIME = "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start, end, nameId)"


def test_a_database_without_a_kernel_table_says_why_and_does_not_break(tmp_path):
    found = read(database(tmp_path / "a.sqlite"))

    assert (found.kernels, found.kernel_time_us) == ((), None)
    assert "no kernel data" in found.reason


def test_kernels_hidden_in_graphs_are_told(tmp_path):
    found = read(
        database(
            tmp_path / "a.sqlite",
            KERNEL,
            RUNTIME,
            "INSERT INTO StringIds VALUES (1, 'cudaGraphLaunch_v10000'), (2, 'f(int)')",
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 10, 0, 281474993487872, 2, NULL)",
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 5, 1), (6, 7, 1)",
        )
    )

    assert "launched 2 times" in found.warnings[0]
    assert "--cuda-graph-trace=node" in found.warnings[0]


def test_kernels_of_a_graph_are_counted_as_such(tmp_path):
    found = read(
        database(
            tmp_path / "a.sqlite",
            KERNEL,
            RUNTIME,
            "INSERT INTO StringIds VALUES (1, 'cudaGraphLaunch_v10000'), (2, 'f(int)')",
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 10, 0, 1, 2, 77), (20, 25, 0, 1, 2, NULL)",
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (0, 5, 1)",
        )
    )

    assert (found.kernels[0].calls, found.kernels[0].graph_calls, found.warnings) == (2, 1, ())


def test_whole_graphs_keep_the_device_busy_and_are_told(tmp_path):
    found = read(
        database(
            tmp_path / "a.sqlite",
            KERNEL,
            "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, deviceId)",
            "INSERT INTO StringIds VALUES (2, 'f(int)')",
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 10, 0, 281474993487872, 2, NULL)",
            "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (10, 100, 0)",
        )
    )

    assert found.devices[0].idle_pct == 0
    assert "1 CUDA graphs are in this report as wholes" in found.warnings[0]


def test_a_name_with_quotes_newlines_and_unicode_is_data_to_the_end(tmp_path):
    name = "f<'\"; DROP TABLE x;--', ядро>(a,\n\x1b[31mb)"
    path = database(tmp_path / "a.sqlite", KERNEL)
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO StringIds VALUES (2, ?)", (name,))
        connection.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 10, 0, 281474993487872, 2, NULL)")
    connection.close()

    (row,) = read(path).kernels

    assert (row.short_name, row.name) == ("f", "f<'\"; DROP TABLE x;--', ядро>(a, b)")


def test_launches_without_an_end_are_left_out_and_counted(tmp_path):
    found = read(
        database(
            tmp_path / "a.sqlite",
            KERNEL,
            "INSERT INTO StringIds VALUES (2, 'f(int)')",
            "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (0, 10, 0, 1, 2, NULL), (20, 5, 0, 1, 2, NULL)",
        )
    )

    assert found.n_launches == 1
    assert "1 launches" in found.warnings[0]


def test_another_programs_database_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "a.sqlite") as connection:
        connection.execute("CREATE TABLE history (url TEXT)")
    connection.close()

    with pytest.raises(ToolError, match="cannot be read as nsys's"):
        read(tmp_path / "a.sqlite")


def test_a_broken_database_is_refused_in_a_sentence(tmp_path):
    (tmp_path / "a.sqlite").write_bytes((OURS / "nt.sqlite").read_bytes()[:9000])

    with pytest.raises(ToolError, match="cannot be read as an nsys database"):
        read(tmp_path / "a.sqlite")


def test_a_command_follows_graphs_and_waits_for_the_targets_own_calls():
    asked = nsys.command("nsys", ["python", "x.py"], "out", version=(2025, 3, 1), only_capture_range=True)

    assert asked[-2:] == ["python", "x.py"]
    assert {"--cuda-graph-trace=node", "--capture-range=cudaProfilerApi", "--capture-range-end=stop"} <= set(asked)
    assert "--cuda-graph-trace=node" not in nsys.command(
        "nsys", ["a"], "o", version=(2020, 4), only_capture_range=False
    )


def test_a_raw_stream_without_a_report_names_the_missing_library_and_the_import():
    error = nsys.no_report("Importer error", "a/x.qdstrm", False, 1)

    assert "libdw1 libelf1" in error.fix
    assert "QdstrmImporter -i a/x.qdstrm" in error.fix
