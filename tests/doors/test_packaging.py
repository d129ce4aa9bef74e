"""The files that registries and clients read agree with the package and with each other."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import write_pages

from hotkernel import __version__
from hotkernel.mcp.resources import GUIDE

ROOT = Path(__file__).parents[2]


def read(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / name).read_text(encoding="utf-8"))
    return found


def test_42_there_is_one_version() -> None:
    server = read("server.json")
    versions = {
        "pyproject.toml": tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"],
        "plugin.json": read(".claude-plugin/plugin.json")["version"],
        "marketplace.json": read(".claude-plugin/marketplace.json")["plugins"][0]["version"],
        "server.json": server["version"],
        "server.json, package": server["packages"][0]["version"],
        "gemini-extension.json": read("gemini-extension.json")["version"],
    }
    assert set(versions.values()) == {__version__}, versions


def test_the_registry_takes_server_json() -> None:
    server = read("server.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", server["name"])
    assert len(server["description"]) <= 100
    package = server["packages"][0]
    assert (package["registryType"], package["runtimeHint"], package["transport"]) == ("pypi", "uvx", {"type": "stdio"})
    assert [each["name"] for each in package["environmentVariables"]] == list(write_pages._VARIABLES)


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
