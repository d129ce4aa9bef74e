"""Programs are found on PATH, in HOTKERNEL_TOOL_DIRS and in wheels, and the newest is taken; stand-ins say their versions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hotkernel.errors import ToolError
from hotkernel.machine import programs

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the stand-ins are shell scripts")


def program(path: Path, says: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho '{says}'\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def around(tmp_path: Path, *folders: str, **more: str) -> dict[str, str]:
    """An environment with these folders on PATH, in which the user's Python has no wheel of NVIDIA's."""
    python = program(tmp_path / "user" / "python", "")
    return {"PATH": os.pathsep.join(str(tmp_path / folder) for folder in folders), "HOTKERNEL_PYTHON": str(python), **more}


def test_the_newest_wins_by_its_numbers_and_not_by_its_letters(tmp_path):
    program(tmp_path / "old" / "ncu", "Version 9999.9.0 (build 1)")
    newest = program(tmp_path / "new" / "ncu", "Version 9999.10.0 (build 2)")

    assert programs.find("ncu", around(tmp_path, "old", "new")) == newest
    assert programs.find("ncu", around(tmp_path, "new", "old")) == newest


def test_of_two_with_one_version_the_first_on_path_is_taken(tmp_path):
    first = program(tmp_path / "one" / "nsys", "NVIDIA Nsight Systems version 9999.3.1.90-253135822126v0")
    program(tmp_path / "two" / "nsys", "NVIDIA Nsight Systems version 9999.3.1.90-253135822126v0")

    assert programs.find("nsys", around(tmp_path, "one", "two")) == first


def test_a_folder_that_is_named_for_tools_counts_beside_path(tmp_path):
    found = program(tmp_path / "my tools" / "cuobjdump", "Cuda compilation tools, release 9999.1, V9999.1.5")

    assert programs.find("cuobjdump", around(tmp_path, HOTKERNEL_TOOL_DIRS=str(tmp_path / "my tools"))) == found


def test_a_wheel_of_the_users_python_counts_where_path_has_nothing(tmp_path):
    found = program(tmp_path / "site" / "nvidia" / "cu13" / "bin" / "nvdisasm", "release 9999.5, V9999.5.1")
    python = program(tmp_path / "with wheels" / "python", str(tmp_path / "site"))

    assert programs.find("nvdisasm", {"PATH": "", "HOTKERNEL_PYTHON": str(python)}) == found


def test_tritons_own_wheel_counts_too(tmp_path):
    found = program(tmp_path / "site" / "triton" / "backends" / "nvidia" / "bin" / "ptxas", "release 9999.8, V9999.8.93")
    python = program(tmp_path / "with triton" / "python", str(tmp_path / "site"))

    assert programs.find("ptxas", {"PATH": "", "HOTKERNEL_PYTHON": str(python)}) == found


def test_a_program_that_says_no_version_loses_to_one_that_does(tmp_path):
    program(tmp_path / "mute" / "nsys", "")
    found = program(tmp_path / "other" / "nsys", "version 9999.1")

    assert programs.find("nsys", around(tmp_path, "mute", "other")) == found


@pytest.mark.parametrize(
    ("says", "version"),
    [
        ("nvdisasm: NVIDIA (R) CUDA disassembler\nCuda compilation tools, release 13.0, V13.0.39", (13, 0)),
        ("Copyright (c) 2018-2025 NVIDIA Corporation\nVersion 2025.3.1.0 (build 36398880) (public-release)", (2025, 3, 1, 0)),
        ("NVIDIA Nsight Systems version 2025.3.1.90-253135822126v0", (2025, 3, 1, 90)),
        ("418.87.01", (418, 87, 1)),
        ("no number here", None),
    ],
)
def test_a_version_is_read_as_numbers(tmp_path, says, version):
    assert programs.version(program(tmp_path / "program", says)) == version


def test_a_program_that_is_nowhere_is_an_error_that_says_how_to_get_it(tmp_path):
    if Path("/opt/nvidia").is_dir() or any(Path("/usr/local").glob("cuda*/bin/nsys")):
        pytest.skip("this machine has NVIDIA's programs where they usually install")

    with pytest.raises(ToolError, match="nsys is not on this machine") as refused:
        programs.find("nsys", around(tmp_path))

    assert "HOTKERNEL_TOOL_DIRS" in refused.value.fix


@pytest.mark.parametrize("unset", ["", "  ", "${HOTKERNEL_PYTHON}", "${env:HOTKERNEL_PYTHON}"])
def test_a_python_that_a_client_did_not_fill_in_counts_as_unset(tmp_path, unset):
    found = program(tmp_path / "bin" / "python3", "")  # ends well whatever it is asked: so it has torch

    assert programs.user_python({"HOTKERNEL_PYTHON": unset, "PATH": str(tmp_path / "bin")}) == found


def test_a_named_python_that_is_no_program_is_an_error_and_no_other_is_taken(tmp_path):
    program(tmp_path / "bin" / "python3", "")

    with pytest.raises(ToolError, match="which is no program here"):
        programs.user_python({"HOTKERNEL_PYTHON": str(tmp_path / "gone"), "PATH": str(tmp_path / "bin")})


def test_the_first_python_that_has_torch_is_taken(tmp_path):
    without = program(tmp_path / "first" / "python3", "")
    without.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    found = program(tmp_path / "second" / "python3", "")

    assert programs.user_python({"PATH": f"{tmp_path / 'first'}{os.pathsep}{tmp_path / 'second'}"}) == found


def test_our_own_python_is_taken_where_it_alone_has_torch(tmp_path, monkeypatch):
    program(tmp_path / "bin" / "python3", "").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    own = program(tmp_path / "own" / "python3", "")
    monkeypatch.setattr(programs.sys, "executable", str(own))

    assert programs.user_python({"PATH": str(tmp_path / "bin")}) == own


def test_no_python_with_torch_is_an_error_that_names_those_that_were_tried(tmp_path, monkeypatch):
    bare = tmp_path / "bin" / "python3"
    program(bare, "").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    monkeypatch.setattr(programs.sys, "executable", str(bare))

    with pytest.raises(ToolError, match="no Python with torch was found") as refused:
        programs.user_python({"PATH": str(tmp_path / "bin")})

    assert str(bare) in refused.value.message
    assert "HOTKERNEL_PYTHON" in refused.value.fix
