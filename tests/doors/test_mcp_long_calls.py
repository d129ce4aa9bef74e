"""Long calls: progress, cancelling, waiting, jobs and tasks; the numbers are those of docs/mcp.md."""

from __future__ import annotations

import contextlib
import itertools
import json
import sys
import time
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_support import ERAS, REAL_SERVER, in_memory, over_stdio, processes_of, raw, run, unique_seconds, wait_until

TASKS = "io.modelcontextprotocol/tasks"


@pytest.mark.parametrize("mode", ERAS.values())
def test_23_progress_rises_and_comes_early(mode: str, tmp_path: Path) -> None:
    heard: list[tuple[float, float, str | None]] = []

    async def body() -> None:
        started = time.monotonic()

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append((time.monotonic() - started, progress, message))

        async with in_memory(tmp_path, mode=mode) as client:
            await client.call_tool("wait", {"timeout": 3.3}, progress_callback=hear)
            known = len(heard)
            await anyio.sleep(0.2)
            assert len(heard) == known, "something was said after the answer"

    run(body)
    times, values, messages = zip(*heard, strict=True)
    assert times[0] < 2
    assert list(values) == sorted(set(values))
    assert messages[0] == "waiting 0/3"
    assert all(later - earlier <= 5 for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize("mode", ERAS.values())
def test_25_a_cancelled_call_leaves_no_process_and_the_next_works(mode: str) -> None:
    seconds = unique_seconds()
    marker = f"time.sleep({seconds!r})"

    async def body() -> None:
        async with over_stdio(mode=mode) as client:
            with anyio.move_on_after(20):
                async with anyio.create_task_group() as group:
                    group.start_soon(client.call_tool, "wait", {"timeout": seconds, "escape": True})
                    while not processes_of(marker):
                        await anyio.sleep(0.05)
                    group.cancel_scope.cancel()
            cancelled = time.monotonic()
            while processes_of(marker):
                assert time.monotonic() - cancelled < 3
                await anyio.sleep(0.02)
            assert not (await client.call_tool("nothing", {})).is_error
            assert (await client.call_tool("job", {"action": "list"})).structured_content["jobs"] == []

    run(body)


def test_31_a_timeout_of_our_own_tells_what_was_said_so_far(tmp_path: Path) -> None:
    async def body() -> Any:
        async with in_memory(tmp_path) as client:
            return (await client.call_tool("outlast", {})).structured_content

    told = run(body)
    assert told["code"] == "timeout"
    assert told["retryable"] is True
    assert "half way" in told["details"]


@pytest.mark.parametrize("mode", ERAS.values())
def test_32_a_call_that_outlasts_wait_s_goes_on_as_a_job(mode: str, tmp_path: Path) -> None:
    async def body() -> None:
        async with in_memory(tmp_path, mode=mode) as client:
            await client.list_tools()
            told = (await client.call_tool("wait", {"timeout": 1.5, "wait_s": 0.2})).structured_content
            assert told["status"] == "running"
            listed = (await client.call_tool("job", {"action": "list"})).structured_content["jobs"]
            assert [row["job"] for row in listed] == [told["job"]]
            there = (await client.call_tool("job", {"action": "get", "id": told["job"]})).structured_content
            assert there["status"] == "running"
            short = (await client.call_tool("job", {"action": "wait", "id": told["job"], "wait_s": 0.1}))
            assert short.structured_content["status"] == "running"
            ended = (await client.call_tool("job", {"action": "wait", "id": told["job"]})).structured_content
            assert ended["status"] == "done"
            assert ended["result"]["said"] == {"waited": 1.5}
            again = (await client.call_tool("job", {"action": "get", "id": told["job"]})).structured_content
            assert again["result"] == ended["result"]

    run(body)


def test_32_a_job_is_cancelled_by_its_id(tmp_path: Path) -> None:
    seconds = unique_seconds()
    marker = f"time.sleep({seconds!r})"

    async def body() -> None:
        async with in_memory(tmp_path) as client:
            told = (await client.call_tool("wait", {"timeout": seconds, "wait_s": 0.5})).structured_content
            assert processes_of(marker)
            gone = (await client.call_tool("job", {"action": "cancel", "id": told["job"]})).structured_content
            assert gone["status"] == "cancelled"
            assert not processes_of(marker)

    run(body)


def modern(method: str, params: dict[str, Any], *, tasks: bool = True) -> tuple[str, dict[str, Any]]:
    capabilities = {"extensions": {TASKS: {}}} if tasks else {}
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
            "io.modelcontextprotocol/clientCapabilities": capabilities}
    return method, {**params, "_meta": meta}


def test_33_a_client_that_knows_tasks_gets_one_and_follows_it_to_its_end() -> None:
    with raw() as client:
        told = client.ask(*modern("tools/call", {"name": "wait", "arguments": {"timeout": 0.5}}))["result"]
        assert told["resultType"] == "task"
        assert told["status"] == "working"
        states = []
        while not states or states[-1]["status"] == "working":
            states.append(client.ask(*modern("tasks/get", {"taskId": told["taskId"]}))["result"])
        ended = states[-1]
        assert ended["status"] == "completed"
        assert ended["result"]["structuredContent"]["said"] == {"waited": 0.5}
        assert ended["result"]["isError"] is False
        assert {state["createdAt"] for state in states} == {told["createdAt"]}


def test_33_a_failed_tool_completes_its_task_and_a_cancelled_one_leaves_nothing() -> None:
    seconds = unique_seconds()
    marker = f"time.sleep({seconds!r})"
    with raw() as client:
        refused = client.ask(*modern("tools/call", {"name": "wait", "arguments": {"timeout": "soon"}}))["result"]
        assert refused["isError"] is True
        call = modern("tools/call", {"name": "wait", "arguments": {"timeout": seconds}})
        told = client.ask(*call)["result"]
        assert wait_until(lambda: processes_of(marker), 10)
        client.ask(*modern("tasks/cancel", {"taskId": told["taskId"]}))
        assert not processes_of(marker)
        assert client.ask(*modern("tasks/get", {"taskId": told["taskId"]}))["result"]["status"] == "cancelled"
        unknown = client.ask(*modern("tasks/get", {"taskId": "nope"}))["error"]
        assert unknown["code"] == -32602


def test_33_a_client_that_knows_no_tasks_gets_the_plain_answer() -> None:
    with raw() as client:
        call = modern("tools/call", {"name": "wait", "arguments": {"timeout": 0.1}}, tasks=False)
        assert client.ask(*call)["result"]["structuredContent"]["said"] == {"waited": 0.1}
        assert client.ask(*modern("tasks/get", {"taskId": "x"}, tasks=False))["error"]["code"] == -32021


def test_34_two_hundred_calls_at_once_are_all_answered(tmp_path: Path) -> None:
    async def body() -> None:
        async with over_stdio() as client:
            answers: list[Any] = []

            async def one() -> None:
                answers.append(await client.call_tool("nothing", {}))

            async with anyio.create_task_group() as group:
                for _ in range(200):
                    group.start_soon(one)
            assert len(answers) == 200
            assert not any(answer.is_error for answer in answers)

    run(body)


def test_34_a_child_may_say_eight_megabytes() -> None:
    with raw() as client:
        client.initialize()
        answer = client.ask("tools/call", {"name": "flood", "arguments": {}})
        assert answer["result"]["structuredContent"]["said"] == {"bytes": 8_000_001}
        assert len(json.dumps(answer)) < 2000


BENCH_SCRIPT = """
import json, sys, time
started = time.time()
time.sleep(0.15)
print(json.dumps({"ms": 150.0}))
with open(sys.argv[1], "a", encoding="utf-8") as file:
    file.write(json.dumps([sys.argv[2], started, time.time()]) + chr(10))
"""


@pytest.mark.parametrize("servers", [1, 2])
def test_24_two_benches_never_overlap(servers: int, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(BENCH_SCRIPT, encoding="utf-8")
    log = tmp_path / "log"
    variables = {"HOTKERNEL_PYTHON": sys.executable, "HOTKERNEL_STATE_DIR": str(tmp_path / "state"),
                 "TMPDIR": str(tmp_path)}  # a lock of its own: others may time on this machine meanwhile

    async def body() -> None:
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(over_stdio(REAL_SERVER, cwd=tmp_path, **variables))
                       for _ in range(servers)]

            async def bench(name: str, client: Any) -> None:
                answer = await client.call_tool("bench", {"script": "script.py", "n": 2, "args": [str(log), name]})
                assert not answer.is_error, answer.content[0].text
                assert answer.structured_content["waited_for_gpu_s"] is not None

            async with anyio.create_task_group() as group:
                group.start_soon(bench, "one", clients[0])
                group.start_soon(bench, "two", clients[-1])

    run(body)
    runs = sorted((json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()), key=lambda each: each[1])
    names = [name for name, _, _ in runs]
    assert names in (["one"] * 3 + ["two"] * 3, ["two"] * 3 + ["one"] * 3)
    assert all(earlier[2] <= later[1] for earlier, later in itertools.pairwise(runs))


def test_25_a_cancelled_bench_leaves_the_card_to_the_next(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text("open('begun', 'w').close()\nimport time; time.sleep(600)\n", encoding="utf-8")
    (tmp_path / "quick.py").write_text("print('{\"ms\": 1.0}')\n", encoding="utf-8")
    variables = {"HOTKERNEL_PYTHON": sys.executable, "HOTKERNEL_STATE_DIR": str(tmp_path / "state"),
                 "TMPDIR": str(tmp_path)}

    async def body() -> None:
        async with over_stdio(REAL_SERVER, cwd=tmp_path, **variables) as client:
            async with anyio.create_task_group() as group:
                group.start_soon(client.call_tool, "bench", {"script": "slow.py"})
                while not (tmp_path / "begun").exists():
                    await anyio.sleep(0.05)
                group.cancel_scope.cancel()
            answer = await client.call_tool("bench", {"script": "quick.py", "n": 1})
            assert answer.structured_content["mean_ms"] == 1.0
            assert answer.structured_content["waited_for_gpu_s"] < 3

    run(body)
