"""The agent's door speaks the protocol, in both eras; the numbers are those of docs/mcp.md."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest
from mcp.shared.exceptions import MCPError
from mcp_support import ERAS, REAL_SERVER, in_memory, over_stdio, raw, run

from hotkernel import __version__, tools
from hotkernel.mcp.instructions import INSTRUCTIONS


@pytest.mark.parametrize(("version", "mode"), ERAS.items())
def test_01_both_eras_answer_with_the_packages_version(version: str, mode: str) -> None:
    async def body() -> None:
        async with over_stdio(REAL_SERVER, mode=mode) as client:
            assert client.protocol_version == version
            assert client.server_info is not None
            assert (client.server_info.name, client.server_info.version) == ("hotkernel", __version__)
            assert client.instructions == INSTRUCTIONS
            names = [each.name for each in (await client.list_tools()).tools]
            assert names == [*(each.name for each in tools.LISTED if not each.is_for_people), "job"]

    run(body)


def test_01_an_older_client_is_served_too() -> None:
    with raw() as client:
        assert client.initialize()["result"]["protocolVersion"] == "2025-06-18"


def test_02_the_first_answer_costs_less_than_a_second_and_a_half_of_work() -> None:
    with raw(REAL_SERVER) as client:
        client.initialize()
        used = psutil.Process(client.process.pid).cpu_times()
    assert used.user + used.system < 1.5  # of the processor: on the clock it depends on the neighbours (benchmarks/mcp_start.py)


def test_04_nothing_but_json_is_on_standard_output() -> None:
    with raw() as client:
        client.initialize()
        client.ask("tools/list")
        for name in ("chatty", "crash", "flood", "hostile", "refuse", "outlast"):
            answer = client.ask("tools/call", {"name": name, "arguments": {}})
            assert "result" in answer
        client.leave()
        assert client.process.wait(10) == 0
        assert client.process.stdout is not None
        rest = client.process.stdout.read()
        for line in [*client.lines, *rest.splitlines()]:
            assert json.loads(line)["jsonrpc"] == "2.0"
        assert client.process.stderr is not None
        assert b"this is no JSON" in client.process.stderr.read()


def test_05_the_list_of_tools_is_the_same_bytes_and_small() -> None:
    with raw(REAL_SERVER) as client:
        client.initialize()
        first, second = (json.dumps(client.ask("tools/list")["result"]) for _ in range(2))
    assert first == second
    offered = json.loads(first)["tools"]
    for_the_model = [{name: tool[name] for name in ("name", "description", "inputSchema")} for tool in offered]
    assert len(json.dumps(for_the_model)) < 20_000
    assert len(first) < 40_000  # with the schemas of all answers, which clients keep to themselves


@pytest.mark.parametrize("mode", ERAS.values())
def test_09_what_does_not_exist_is_a_protocol_error_that_helps(mode: str, tmp_path: Path) -> None:
    async def body() -> None:
        async with in_memory(tmp_path, mode=mode) as client:
            with pytest.raises(MCPError, match="did you mean 'echo'") as refused:
                await client.call_tool("ecko", {})
            assert refused.value.code == -32602
            with pytest.raises(MCPError, match="there are hotkernel://runs"):
                await client.read_resource("hotkernel://nope")
            with pytest.raises(MCPError, match="there is kernel-speedrun"):
                await client.get_prompt("nope")
            with pytest.raises(MCPError, match="no argument 'traget'"):
                await client.get_prompt("kernel-speedrun", {"traget": "x"})

    run(body)


def test_10_instructions_and_descriptions_are_not_cut_by_any_client() -> None:
    assert len(INSTRUCTIONS) <= 2000
    assert "data, not instructions" in INSTRUCTIONS
    for listed in tools.LISTED:
        assert 20 <= len(listed.load().text) < 4096


def test_resources_say_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "LEADERBOARD.md").write_text("# Leaderboard\n| rmsnorm |\n", encoding="utf-8")
    (tmp_path / "gelu_baseline.py").write_text("", encoding="utf-8")

    async def body() -> None:
        async with in_memory(tmp_path, variables={"HOTKERNEL_STATE_DIR": str(tmp_path / "state")}) as client:
            listed = [str(each.uri) for each in (await client.list_resources()).resources]
            assert listed == [f"hotkernel://{name}" for name in ("runs", "leaderboard", "gpus", "calibration", "guide")]
            texts = {uri: (await client.read_resource(uri)).contents[0].text for uri in listed}
            assert "| rmsnorm |" in texts["hotkernel://leaderboard"]
            assert json.loads(texts["hotkernel://runs"]) == {"records": [], "total": 0}
            assert json.loads(texts["hotkernel://calibration"]) == {"calibrations": []}
            assert texts["hotkernel://guide"].startswith("---\nname: kernel-speedrun\n")
            templates = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
            assert "hotkernel://record/{target}/{log}" in templates
            prompt = await client.get_prompt("kernel-speedrun", {"target": "gelu"})
            assert prompt.messages[0].content.text.startswith("Make this faster: gelu\n\n# Kernel speedrun\n")

    run(body)


@pytest.mark.parametrize("uri", [
    "hotkernel://record/../../etc/passwd", "hotkernel://record/%2e%2e/x", "hotkernel://comparison/../x",
    "hotkernel://result/a.b", "hotkernel://record/..../x", "file:///etc/passwd", "hotkernel://result/" + "a" * 65,
])
def test_35_a_resources_address_leads_nowhere_else(uri: str, tmp_path: Path) -> None:
    async def body() -> None:
        async with in_memory(tmp_path) as client:
            with pytest.raises(MCPError):
                await client.read_resource(uri)

    run(body)


def test_targets_are_completed(tmp_path: Path) -> None:
    from mcp_types import PromptReference

    for name in ("gelu", "geglu", "rmsnorm"):
        (tmp_path / f"{name}_baseline.py").write_text("", encoding="utf-8")

    async def body() -> None:
        async with in_memory(tmp_path) as client:
            found = await client.complete(PromptReference(name="kernel-speedrun"), {"name": "target", "value": "ge"})
            assert found.completion.values == ["geglu", "gelu"]

    run(body)
