"""Both doors have the same tools, with the same names, defaults and words."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest
from mcp_support import in_memory, run

from hotkernel import arguments, cli, tools
from hotkernel.mcp import schemas
from hotkernel.mcp.door import JOB, offer
from hotkernel.schema.plain import to_plain
from hotkernel.session import Session
from hotkernel.tool import Tool

REAL = [each.load() for each in tools.LISTED if not each.is_for_people]
PEOPLES = [each.load() for each in tools.LISTED if each.is_for_people]
# What belongs to one door alone, and why: a terminal waits as long as its person does.
AGENTS_OWN = {"job", "wait_s"}


def options(tool: Tool) -> dict[str, argparse.Action]:
    """The terminal's options of a tool, by the name that the agent's door has."""
    found = arguments._parser(tool, "hotkernel")._actions  # argparse offers no other way to look
    return {each.dest: each for each in found if each.dest not in ("help", "json", "require", "_rest")}


def test_both_doors_have_the_same_tools(tmp_path: Path) -> None:
    async def body() -> list[str]:
        async with in_memory(tmp_path, tools.LISTED) as client:
            return [each.name for each in (await client.list_tools()).tools]

    offered = run(body)
    assert set(offered) - AGENTS_OWN == {each.name for each in REAL}
    told = cli.overview(tools.LISTED)
    for tool in (*REAL, *PEOPLES):
        assert f"  {tool.name} " in told
        assert tool.listed.title in told


@pytest.mark.parametrize("tool", REAL, ids=lambda tool: tool.name)
def test_both_doors_have_the_same_arguments_and_words(tool: Tool) -> None:
    agents: dict[str, Any] = schemas.input_schema(tool)["properties"]
    terminals = options(tool)
    assert agents.keys() - AGENTS_OWN == terminals.keys()
    for name, action in terminals.items():
        assert agents[name]["description"] in str(action.help).replace("%%", "%")


@pytest.mark.parametrize("tool", REAL, ids=lambda tool: tool.name)
def test_both_doors_say_the_same_default(tool: Tool) -> None:
    for name, action in options(tool).items():
        default = schemas.input_schema(tool)["properties"][name].get("default")
        shown = str(action.help).replace("%%", "%").rpartition(" (default: ")[2].removesuffix(")")
        if default not in (None, False, []):
            assert shown == (default if isinstance(default, str) else json.dumps(default))


@pytest.mark.parametrize("tool", REAL, ids=lambda tool: tool.name)
def test_the_tools_docstring_is_what_both_doors_say(tool: Tool, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([tool.name, "--help"])
    assert left.value.code == 0
    assert offer(tool).description == tool.text
    assert tool.text in capsys.readouterr().out


def test_both_doors_answer_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["roofline", "h100sxm", "--flops", "1e12", "--bytes", "1e9", "--json"]) == 0
    typed = json.loads(capsys.readouterr().out)
    asked = {"gpu": "h100sxm", "flops": 1e12, "bytes": 1e9}

    async def body() -> Any:
        async with in_memory(tmp_path, tools.LISTED) as client:
            return (await client.call_tool("roofline", asked)).structured_content

    called = run(body)
    plain = to_plain(tools.find("roofline", tools.LISTED).function(Session(), **asked))
    assert typed == plain
    assert {name: called[name] for name in plain} == plain


def test_the_jobs_of_the_agents_door_are_the_only_tool_of_its_own() -> None:
    assert {JOB.name, schemas.WAIT.name} <= AGENTS_OWN
