"""Folders that somebody filled with malice are sized and removed all the same."""

from __future__ import annotations

import os

from hotkernel.machine import folders


def dig(folder, depth, name="d"):
    """A tree deeper than a path is long."""
    here = os.open(folder, os.O_RDONLY)
    for _ in range(depth):
        os.mkdir(name, dir_fd=here)
        below = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def test_a_tree_deeper_than_any_stack_is_removed(tmp_path):
    folder = tmp_path / "scratch"
    folder.mkdir()
    dig(folder, 1500)
    folders.remove(folder)

    assert not folder.exists()


def test_a_tree_with_paths_longer_than_the_system_takes_is_sized_and_removed(tmp_path):
    folder = tmp_path / "caches"
    folder.mkdir()
    dig(folder, 40, "d" * 200)
    (folder / "kernel").write_bytes(b"x" * 10_000)

    assert folders.bytes_on_disk(folder) >= 10_000
    folders.remove(folder)
    assert not folder.exists()


def test_a_folder_without_rights_is_removed_and_what_a_link_names_is_kept(tmp_path):
    folder, other = tmp_path / "scratch", tmp_path / "other"
    (folder / "closed" / "inner").mkdir(parents=True)
    other.mkdir()
    (other / "kept").touch()
    (folder / "link").symlink_to(other)
    (folder / "closed" / "link").symlink_to(other)
    (folder / "closed").chmod(0)
    folders.remove(folder)

    assert not folder.exists()
    assert (other / "kept").exists()


def test_a_file_of_holes_is_as_large_as_what_it_takes(tmp_path):
    with open(tmp_path / "holes", "wb") as file:
        file.truncate(3 << 30)

    assert folders.bytes_on_disk(tmp_path) < 1 << 20
