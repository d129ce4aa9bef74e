"""What a call may not reach: paths outside the roots, secrets, options in disguise; the numbers are docs/mcp.md's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from mcp_support import in_memory, run
from samples import SAMPLES

from hotkernel.mcp.surroundings import OutsideRoots, Surroundings
from hotkernel.tools import find

SECRETS = {"AWS_SECRET_ACCESS_KEY": "hunter2", "GITHUB_TOKEN": "hunter2", "HF_TOKEN": "hunter2",
           "ANTHROPIC_API_KEY": "hunter2", "HOTKERNEL_API_KEY": "hunter2", "CUDA_PASSWORD": "hunter2",
           "DATABASE_URL": "hunter2", "SSH_AUTH_SOCK": "hunter2"}
WANTED = {"CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/opt/lib", "TRITON_CACHE_DIR": "/tmp/t",
          "HOTKERNEL_PYTHON": "p", "TORCH_HOME": "/t", "LC_ALL": "C.UTF-8", "CUDA_HOME": "/usr/local/cuda"}


def call(name: str, arguments: dict[str, Any], root: Path, **variables: str) -> dict[str, Any]:
    async def body() -> Any:
        async with in_memory(root, variables=variables) as client:
            return (await client.call_tool(name, arguments)).structured_content

    told: dict[str, Any] = run(body)
    return told


@pytest.mark.parametrize("place", ["../elsewhere", "/etc", "/tmp/../etc", "~", "link", "link/below", "below/../../up"])
def test_35_nothing_is_written_outside_the_roots(place: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "link").symlink_to("/usr")
    told = call("echo", {"target": "a", "out_dir": place}, root)
    assert told["code"] == "bad_path"
    assert "outside the working folders" in told["message"]
    assert "HOTKERNEL_ROOTS" in told["fix"]


@pytest.mark.parametrize("place", ["below", "./below", "below/../other", "inner/below", "."])
def test_35_what_lies_below_a_root_is_free(place: str, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "inner").symlink_to(tmp_path / "real")
    assert call("echo", {"target": "a", "out_dir": place}, tmp_path)["status"] == "done"


@pytest.mark.parametrize("value", ["a\0b", "file:///etc/passwd", "-o/etc/passwd", "--out=x"])
def test_35_and_36_what_is_no_path_is_refused(value: str, tmp_path: Path) -> None:
    for name in ("target", "out_dir"):
        assert call("echo", {"target": "a", name: value}, tmp_path)["code"] == "bad_argument"


def test_36_shell_characters_are_characters(tmp_path: Path) -> None:
    evil = "$(touch pwned); `touch pwned` | touch pwned & \n touch pwned"
    assert call("echo", {"target": evil, "args": [evil]}, tmp_path)["said"]["target"] == evil
    assert not list(tmp_path.rglob("pwned"))


def test_roots_are_named_by_the_environment(tmp_path: Path) -> None:
    one, two, three = (tmp_path / name for name in ("one", "two", "three"))
    for folder in (one, two, three):
        folder.mkdir()
    assert Surroundings.of({"HOTKERNEL_ROOTS": f"{one}{os.pathsep}{two}"}, three).roots == (one, two)
    assert Surroundings.of({"CLAUDE_PROJECT_DIR": str(one)}, three).roots == (one,)
    assert Surroundings.of({"HOTKERNEL_ROOTS": "", "CLAUDE_PROJECT_DIR": ""}, three).roots == (three,)
    echo = find("echo", SAMPLES)
    Surroundings((one, two), {}).confine(echo, {"out_dir": str(two / "x")})
    with pytest.raises(OutsideRoots):
        Surroundings((one, two), {}).confine(echo, {"out_dir": str(three)})


def test_38_a_child_sees_no_secret(tmp_path: Path) -> None:
    seen = call("environment", {}, tmp_path, **SECRETS, **WANTED)["said"]
    assert "hunter2" not in str(seen)
    assert WANTED.items() <= seen.items()
    assert {"PATH", "HOME"} <= seen.keys()


def test_38_what_the_user_names_is_passed(tmp_path: Path) -> None:
    seen = call("environment", {}, tmp_path, HOTKERNEL_PASS_ENV="HF_TOKEN, DATABASE_URL", **SECRETS)["said"]
    assert {name for name in SECRETS if name in seen} == {"HF_TOKEN", "DATABASE_URL"}


def test_40_a_variable_that_the_client_did_not_expand_is_unset(tmp_path: Path) -> None:
    unexpanded = {"HOTKERNEL_ROOTS": "${HOTKERNEL_ROOTS}", "HOTKERNEL_PYTHON": "${user_config.python}",
                  "CLAUDE_PROJECT_DIR": " ${CLAUDE_PROJECT_DIR} "}
    surroundings = Surroundings.of(unexpanded, tmp_path)
    assert surroundings.roots == (tmp_path,)
    assert surroundings.environment == {}
