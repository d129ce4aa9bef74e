"""Traces with everything that profilers are known to do to their JSON, and files that are none."""

import gzip
import json

import pytest
from kernel_reports import read

from hotkernel.errors import ToolError
from hotkernel.machine import reports


def kernel(name, start, length, **more):
    arguments = {"device": 0, "stream": 7}
    return {
        "ph": "X",
        "cat": "kernel",
        "name": name,
        "pid": 0,
        "tid": 7,
        "ts": start,
        "dur": length,
        "args": arguments,
        **more,
    }


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode("utf-8"))
    return path


EVENT = json.dumps(kernel("f(int)", 0, 10))


def test_lone_backslashes_of_a_windows_path_are_mended(tmp_path):
    broken = '{"ph": "X", "cat": "python_function", "name": "C:\\Users\\x\\sitecustomize.py", "ts": 1, "dur": 2}'

    found = read(write(tmp_path / "a.json", f'{{"traceEvents": [{broken}, {EVENT}]}}'))

    assert (found.n_launches, found.warnings) == (1, ())


def test_an_event_with_a_missing_quote_is_left_out_and_told(tmp_path):
    broken = '{"ph": "X", "cat": "kernel", "name: "oops", "dur": 2}'

    found = read(write(tmp_path / "a.json", f'{{"traceEvents": [{EVENT},\n  {broken},\n  {EVENT}\n]}}'))

    assert found.n_launches == 2
    assert "1 events of the trace were not valid JSON" in found.warnings[0]


def test_a_trace_that_breaks_off_gives_what_it_has_and_says_where(tmp_path):
    found = read(write(tmp_path / "a.json", f'{{"traceEvents": [{EVENT},\n {EVENT},\n {EVENT[:40]}'))

    assert found.n_launches == 2
    assert "breaks off after" in found.warnings[0]


def test_bytes_that_are_no_utf8_and_control_characters_do_not_stop_the_reading(tmp_path):
    text = b'\xef\xbb\xbf{"traceEvents": [' + EVENT.encode().replace(b"f(int)", b"f\xb5\x07(int)") + b"]}"

    assert read(write(tmp_path / "a.json", text)).kernels[0].short_name == "f�"


def test_a_bare_list_of_events_is_a_trace_too(tmp_path):
    assert read(write(tmp_path / "a.json", f"[{EVENT}]")).n_launches == 1


def test_cards_that_are_named_behind_the_events_are_found(tmp_path):
    text = f'{{"traceEvents": [{EVENT}], "deviceProperties": [{{"id": 0, "name": "NVIDIA X"}}]}}'

    assert read(write(tmp_path / "a.json", text)).devices[0].name == "NVIDIA X"


def test_a_trace_much_longer_than_one_chunk_loses_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(reports, "CHUNK_CHARS", 4000)
    events = ",\n".join(
        json.dumps(kernel(f"f{number % 3}(int)", number, 1, note="x" * (number % 900))) for number in range(3000)
    )

    found = read(write(tmp_path / "a.json", f'{{"traceEvents": [{events}]}}'))

    assert [row.calls for row in found.kernels] == [1000, 1000, 1000]
    assert found.warnings == ()


def test_json_of_another_shape_is_refused_with_what_it_holds(tmp_path):
    with pytest.raises(ToolError, match="has no traceEvents") as refused:
        read(write(tmp_path / "a.json", '{"gpu": "x", "mode": 1}'))

    assert refused.value.detail == "its keys: gpu, mode"


def test_a_gzip_file_that_breaks_off_is_refused_in_a_sentence(tmp_path):
    packed = gzip.compress(f'{{"traceEvents": [{",".join([EVENT] * 3000)}]}}'.encode())

    with pytest.raises(ToolError, match="broken gzip"):
        read(write(tmp_path / "a.json.gz", packed[: len(packed) // 2]))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\x7fELF\x00\x01", "not a report"),
        (b"hello", "not a report"),
        (b"  \n", "is empty"),
        (b"[INFO] training\n[INFO] done\n", "not a report"),
    ],
)
def test_what_is_no_report_is_refused_in_a_sentence(tmp_path, content, message):
    with pytest.raises(ToolError, match=message):
        read(write(tmp_path / "a.txt", content))
