"""Claims about writing whole or not at all, strict reading, and locks."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from record_makers import in_a_child

from hotkernel.errors import ToolError
from hotkernel.records import files


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users reach too, unlike pytest's own."""
    folder = Path(tempfile.mkdtemp(prefix="hotkernel-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_a_file_is_written_with_its_folders_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "log.json"

    files.write_whole(path, '{"n": 1}')
    files.write_whole(path, '{"n": 2}')

    assert path.read_text(encoding="utf-8") == '{"n": 2}'
    assert [each.name for each in path.parent.iterdir()] == ["log.json"]


def test_a_written_file_may_be_read_by_whoever_the_umask_allows(tmp_path: Path) -> None:
    def mode_under_022() -> str:
        os.umask(0o022)
        files.write_new(tmp_path / "log.json", "{}")
        return oct((tmp_path / "log.json").stat().st_mode & 0o777)

    assert in_a_child(mode_under_022) == "0o644"


def test_a_new_file_never_goes_over_another(tmp_path: Path) -> None:
    path = tmp_path / "log.json"

    assert files.write_new(path, "first") is True
    assert files.write_new(path, "second") is False
    assert path.read_text(encoding="utf-8") == "first"


def test_a_new_file_never_goes_over_another_where_there_are_no_links(tmp_path: Path) -> None:
    path, beside = tmp_path / "log.json", tmp_path / "beside"
    beside.write_text("first", encoding="utf-8")

    assert files._claim(beside, path) is True
    beside.write_text("second", encoding="utf-8")
    assert files._claim(beside, path) is False
    assert path.read_text(encoding="utf-8") == "first"


def test_many_writers_of_one_new_name_leave_one_whole_file(tmp_path: Path) -> None:
    path, written = tmp_path / "log.json", []
    threads = [
        threading.Thread(target=lambda text=str(number) * 5000: written.append((files.write_new(path, text), text)))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert [text for won, text in written if won] == [path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("write", [files.write_whole, files.write_new])
def test_a_disk_that_fills_leaves_nothing_half_written(tmp_path: Path, write: object) -> None:
    path = tmp_path / "log.json"

    answer = in_a_child(
        lambda: str(write(path, "x" * 100_000)),  # type: ignore[operator]
        before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )

    assert answer.startswith("ToolError")
    assert "larger than this process may write" in answer
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_keeps_what_stood_there_and_says_that_it_is_full(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", tmp_path], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        files.write_whole(tmp_path / "board.md", "old")
        with pytest.raises(ToolError, match="the disk is full") as caught:
            files.write_whole(tmp_path / "board.md", "n" * 200_000)
        assert "make room" in caught.value.fix
        assert (tmp_path / "board.md").read_text(encoding="utf-8") == "old"
        assert [each.name for each in tmp_path.iterdir()] == ["board.md"]
    finally:
        subprocess.run(["umount", tmp_path], check=True)


def test_a_folder_that_may_not_be_written_says_so(open_folder: Path) -> None:
    open_folder.chmod(0o555)

    answer = in_a_child(lambda: str(files.write_whole(open_folder / "log.json", "{}")), as_nobody=True)

    assert answer.startswith("ToolError")
    assert "no permission" in answer
    assert str(open_folder) in answer
    assert list(open_folder.iterdir()) == []


def test_a_file_where_a_folder_should_be_is_refused_in_words(tmp_path: Path) -> None:
    (tmp_path / "results").write_text("", encoding="utf-8")

    with pytest.raises(ToolError, match="was not written"):
        files.write_whole(tmp_path / "results" / "rms" / "log.json", "{}")


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "no JSON"),
        (b'{"a": 1', "no JSON"),
        (b'{"a": NaN}', "NaN"),
        (b'{"a": -Infinity}', "Infinity"),
        (b'{"a": 1e999}', "no finite number"),
        (b"[1]", "holds a list"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", "nested too deep"),
        (b'{"a": ' + b"9" * 5000 + b"}", "no JSON"),
    ],
)
def test_what_is_no_json_object_is_refused_with_its_reason(tmp_path: Path, content: bytes, why: str) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(content)

    with pytest.raises(files.NotJson, match=why):
        files.read_object(path)


def test_a_pipe_or_device_called_json_does_not_hang_the_reader(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")

    for name in ("pipe.json", "zero.json"):
        with pytest.raises(files.NotJson, match="no plain file"):
            files.read_object(tmp_path / name)


def test_a_lock_keeps_the_second_holder_out_until_the_first_is_done(tmp_path: Path) -> None:
    order: list[str] = []
    first_has_it = threading.Event()

    def second() -> None:
        first_has_it.wait(10)
        with files.locked(tmp_path / "locks" / "board.lock"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with files.locked(tmp_path / "locks" / "board.lock"):
        first_has_it.set()
        thread.join(0.2)
        order.append("first")
    thread.join(10)

    assert order == ["first", "second"]


def test_a_lock_that_is_never_let_go_of_ends_the_wait_with_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "LOCK_TIMEOUT_S", 0.1)

    def try_it() -> str:
        with files.locked(tmp_path / "x.lock"):
            return "had it"

    with files.locked(tmp_path / "x.lock"):
        answer = in_a_child(try_it)

    assert answer.startswith("ToolError")
    assert "another hotkernel held" in answer
