"""What is hashed is what runs: a candidate's files are copied once, and its caches are those of that very content."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hotkernel.errors import ToolError
from hotkernel.harness.sources import BYTES_LIMIT, FILES_LIMIT, caches_for, snapshot


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A candidate with what it imports beside it, and what does not belong to it."""
    files = ("t_candidate.py", "helper.py", "kernels/row.cu", "kernels/row.cuh", "kernels/deep/er/too_deep.py", "table.json",
             "README.md", "weights.bin", "__pycache__/x.py", "results/log.json", ".git/hooks.py", ".secret.py",
             "venv/lib.py", "site-packages/y.py")
    for name in files:
        file = tmp_path / "work" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {name}\n", encoding="utf-8")
    return tmp_path / "work"


def names_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_the_sources_of_the_folder_are_copied_and_nothing_else(folder, tmp_path):
    copy = snapshot(folder / "t_candidate.py", tmp_path / "copy")

    assert copy == tmp_path / "copy" / "t_candidate.py"
    assert names_in(tmp_path / "copy") == {"t_candidate.py", "helper.py", "kernels/row.cu", "kernels/row.cuh", "table.json"}


def test_the_copy_is_what_the_file_was_whatever_is_done_to_it_later(folder, tmp_path):
    copy = snapshot(folder / "t_candidate.py", tmp_path / "copy")
    (folder / "t_candidate.py").write_text("raise SystemExit\n", encoding="utf-8")

    assert copy.read_text(encoding="utf-8") == "# t_candidate.py\n"


def test_a_link_is_not_followed_out_of_the_folder(folder, tmp_path):
    outside = tmp_path / "outside.py"
    outside.write_text("SECRET = 1\n", encoding="utf-8")
    (folder / "linked.py").symlink_to(outside)
    (folder / "up").symlink_to(tmp_path)
    snapshot(folder / "t_candidate.py", tmp_path / "copy")

    assert not {"linked.py", "up"} & {Path(name).parts[0] for name in names_in(tmp_path / "copy")}


def test_a_candidate_that_is_a_link_itself_is_copied_as_what_it_points_to(folder, tmp_path):
    (folder / "current.py").symlink_to(folder / "t_candidate.py")

    assert snapshot(folder / "current.py", tmp_path / "copy").read_text(encoding="utf-8") == "# t_candidate.py\n"


def test_a_folder_with_too_many_files_gives_the_file_alone(folder, tmp_path):
    for number in range(FILES_LIMIT + 2):
        (folder / f"other_{number}.py").touch()
    snapshot(folder / "t_candidate.py", tmp_path / "copy")

    assert names_in(tmp_path / "copy") == {"t_candidate.py"}


def test_a_folder_with_too_many_bytes_gives_the_file_alone(folder, tmp_path):
    with open(folder / "large.json", "wb") as file:
        file.truncate(BYTES_LIMIT + 1)
    snapshot(folder / "t_candidate.py", tmp_path / "copy")

    assert names_in(tmp_path / "copy") == {"t_candidate.py"}


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(folder, tmp_path):
    with pytest.raises(ToolError, match=r"gone\.py cannot be read"):
        snapshot(folder / "gone.py", tmp_path / "copy")


@pytest.fixture
def folder_of_another(folder) -> Iterator[Path]:
    """The same where permissions count even for root: this process is nobody for a while."""
    with tempfile.TemporaryDirectory() as name:
        copy = Path(shutil.copytree(folder, Path(name) / "work"))
        Path(name).chmod(0o777)
        (copy / "helper.py").chmod(0)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65534)
        try:
            yield copy
        finally:
            if is_root:
                os.seteuid(0)


def test_a_neighbour_without_permission_is_left_out(folder_of_another):
    copy = snapshot(folder_of_another / "t_candidate.py", folder_of_another.parent / "copy")

    assert copy.is_file()
    assert "helper.py" not in names_in(copy.parent)
    assert caches_for(folder_of_another / "state", folder_of_another / "t_candidate.py")


def test_a_file_without_permission_is_an_error_that_says_so(folder_of_another):
    with pytest.raises(ToolError, match=r"helper\.py cannot be read: Permission denied"):
        snapshot(folder_of_another / "helper.py", folder_of_another.parent / "copy")


def test_a_scratch_that_cannot_be_written_is_an_error_that_names_it(folder):
    with pytest.raises(ToolError, match=r"/proc/copy/.* cannot be written"):
        snapshot(folder / "t_candidate.py", Path("/proc/copy"))


def test_a_neighbour_that_is_no_plain_file_is_no_reason_to_wait(folder, tmp_path):
    os.mkfifo(folder / "pipe.py")  # nobody writes to it: a read would wait for ever
    copy = snapshot(folder / "t_candidate.py", tmp_path / "copy")

    assert copy.is_file()
    assert "pipe.py" not in names_in(tmp_path / "copy")


# Caches ---------------------------------------------------------------------------------------------------------------


def test_the_caches_of_one_content_are_one_and_of_another_another(folder, tmp_path):
    state = tmp_path / "state"
    before = caches_for(state, folder / "t_candidate.py", "candidate", "torch 2.13")

    assert caches_for(state, folder / "t_candidate.py", "candidate", "torch 2.13") == before
    (folder / "helper.py").write_text("# changed\n", encoding="utf-8")
    assert caches_for(state, folder / "t_candidate.py", "candidate", "torch 2.13") != before


def test_sides_and_interpreters_share_no_caches(folder, tmp_path):
    state, file = tmp_path / "state", folder / "t_candidate.py"
    folders = {caches_for(state, file, side, torch) for side in ("baseline", "candidate") for torch in ("2.12", "2.13")}
    folders.add(caches_for(state, folder / "helper.py", "candidate", "2.13"))

    assert len(folders) == 5
    assert all(each.parent == state / "caches" for each in folders)


def test_a_folder_with_too_much_in_it_is_not_read_to_name_its_caches(folder, tmp_path):
    with open(folder / "large.json", "wb") as file:
        file.truncate(1 << 40)  # a sparse file: reading it would take for ever

    assert caches_for(tmp_path / "state", folder / "t_candidate.py", "candidate")


def test_a_baseline_is_not_compiled_anew_for_each_candidate_beside_it(folder, tmp_path):
    candidate, baseline = folder / "t_candidate.py", folder / "t_baseline.py"
    baseline.write_text("# the function\n", encoding="utf-8")
    before = caches_for(tmp_path, baseline, "baseline", other=candidate), caches_for(tmp_path, candidate, "candidate")
    candidate.write_text("# another try\n", encoding="utf-8")
    after = caches_for(tmp_path, baseline, "baseline", other=candidate), caches_for(tmp_path, candidate, "candidate")

    assert before[0] == after[0]
    assert before[1] != after[1]
    (folder / "helper.py").write_text("# what it imports\n", encoding="utf-8")
    assert caches_for(tmp_path, baseline, "baseline", other=candidate) != after[0]


def test_a_moved_folder_keeps_its_caches(folder, tmp_path):
    before = caches_for(tmp_path / "state", folder / "t_candidate.py", "candidate")
    moved = folder.rename(tmp_path / "moved")

    assert caches_for(tmp_path / "state", moved / "t_candidate.py", "candidate") == before
