"""The files that registries and clients read agree with the package and with each other."""

from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import write_pages

from hotkernel import __version__, tools
from hotkernel.mcp.door import JOB
from hotkernel.mcp.resources import GUIDE

ROOT = Path(__file__).parents[2]


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / name).read_text(encoding="utf-8"))
    return found


def test_42_there_is_one_version() -> None:
    server = read("server.json")
    versions = {
        "plugin.json": read(".claude-plugin/plugin.json")["version"],
        "marketplace.json": read(".claude-plugin/marketplace.json")["plugins"][0]["version"],
        "server.json": server["version"],
        "server.json, package": server["packages"][0]["version"],
        "gemini-extension.json": read("gemini-extension.json")["version"],
    }
    assert set(versions.values()) == {__version__}, versions
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert project["tool"]["hatch"]["version"] == {"path": "src/hotkernel/__init__.py"}


def test_the_registry_takes_server_json() -> None:
    server = read("server.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert len(server["description"]) <= 100
    package = server["packages"][0]
    assert (package["registryType"], package["runtimeHint"], package["transport"]) == ("pypi", "uvx", {"type": "stdio"})
    assert [each["name"] for each in package["environmentVariables"]] == list(write_pages._VARIABLES)


@pytest.mark.skipif(not (ROOT / "README.md").is_file(), reason="the README is still to be written")
def test_the_readme_proves_to_the_registry_whose_package_this_is() -> None:
    assert f"<!-- mcp-name: {read('server.json')['name']} -->" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_client_starts_the_same_server() -> None:
    for name in (".mcp.json", "gemini-extension.json"):
        entry = read(name)["mcpServers"]["hotkernel"]
        assert (entry["command"], entry["args"]) == ("uvx", ["hotkernel"])
    asked = read(".claude-plugin/plugin.json")["userConfig"]
    named = re.findall(r"\$\{user_config\.(\w+)\}", (ROOT / ".mcp.json").read_text(encoding="utf-8"))
    assert set(named) == set(asked)


def test_the_icon_is_a_square_png() -> None:
    head = (ROOT / ".claude-plugin" / "icon.png").read_bytes()[:24]
    assert head.startswith(b"\x89PNG")
    width, height = int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big")
    assert width == height >= 512


def test_the_skill_of_the_plugin_is_the_one_that_the_server_serves() -> None:
    assert (ROOT / "skills" / "kernel-speedrun" / "SKILL.md").read_bytes() == GUIDE.read_bytes()


def test_the_skill_keeps_the_agent_skills_format() -> None:
    _, front, body = GUIDE.read_text(encoding="utf-8").split("---\n", 2)
    keys = re.findall(r"^([a-z-]+):", front, re.MULTILINE)
    assert set(keys) <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    fields = dict(re.findall(r"^([a-z-]+): (.+)$", front, re.MULTILINE))
    assert fields["name"] == GUIDE.parent.name
    assert len(fields["description"]) <= 1024
    assert len(fields["compatibility"]) <= 500
    assert len(body.splitlines()) < 500


@pytest.mark.parametrize("name", write_pages.PAGES)
def test_a_written_page_is_what_its_writer_writes(name: str) -> None:
    assert (ROOT / name).read_text(encoding="utf-8") == write_pages.PAGES[name](), "run tests/doors/write_pages.py"


def test_the_checklist_has_a_line_for_each_of_its_48_points_and_every_test_it_names_is_there() -> None:
    lines = re.findall(r"^\| (\d+) \| .+ \| (.+) \|$", (ROOT / "docs" / "mcp.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert [int(number) for number, _ in lines] == list(range(1, 49))
    tests = "\n".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py"))
    for _, held_by in lines:
        for number in re.findall(r"test_(\d\d)\b", held_by):
            assert f"\ndef test_{number}_" in tests, number
    steps = (Path(__file__).parent / "clients" / "run_clients.py").read_text(encoding="utf-8")
    for _, held_by in lines:
        for named in re.findall(r"clients \(([^)]+)\)", held_by):
            assert all(f'"{step}' in steps for step in named.split(", ")), named


def test_48_the_calls_that_the_skill_shows_are_calls_that_the_tools_take() -> None:
    known = {each.name: each.load() for each in tools.LISTED} | {JOB.name: JOB}
    shown = re.findall(r"(?:`|^    )((\w+)\(.*\))(?:`|$)", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)
    calls = [(name, ast.parse(re.sub(r"<[^>]*>|(?<==)\.\.\.", "'1'", text), mode="eval").body) for text, name in shown]
    assert len(calls) >= 8
    for name, call in calls:
        assert name in known, name
        assert isinstance(call, ast.Call)
        assert not call.args
        takes = {each.name: each for each in known[name].parameters}
        for keyword in call.keywords:
            takes[str(keyword.arg)].read(ast.literal_eval(keyword.value))
