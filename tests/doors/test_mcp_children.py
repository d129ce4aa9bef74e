"""However the server ends, no process of its calls is left; the numbers are those of docs/mcp.md."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from mcp_support import SAMPLE_SERVER, Raw, environment, processes_of, raw, unique_seconds, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc; elsewhere a plain Job ends its groups")


def ends(number: int) -> Callable[[Raw], None]:
    return lambda client: client.process.send_signal(number)


@pytest.mark.parametrize(
    ("end", "status"),
    [
        pytest.param(Raw.leave, 0, id="26 end of input"),
        pytest.param(ends(signal.SIGTERM), 143, id="27 SIGTERM"),
        pytest.param(ends(signal.SIGINT), 130, id="28 SIGINT"),
        pytest.param(ends(signal.SIGKILL), -9, id="29 SIGKILL"),
    ],
)
@pytest.mark.parametrize("escape", [False, True], ids=["child", "setsid grandchild"])
def test_26_to_29_no_child_outlives_the_server(end: Callable[[Raw], None], status: int, escape: bool) -> None:
    seconds = unique_seconds()
    marker = f"time.sleep({seconds!r})"
    with raw() as client:
        client.initialize()
        client.send({"id": 99, "method": "tools/call",
                     "params": {"name": "wait", "arguments": {"timeout": seconds, "escape": escape}}})
        assert wait_until(lambda: processes_of(marker), 10)
        end(client)
        assert client.process.wait(10) == status
        assert wait_until(lambda: not processes_of(marker), 4)


def test_30_a_server_whose_parent_died_leaves_though_its_input_stays_open() -> None:
    seconds = unique_seconds()
    marker = f"time.sleep({seconds!r})"
    reading, writing = os.pipe()
    # the parent starts the server on our pipe and dies; this test still holds the pipe open
    parent = subprocess.Popen(
        [sys.executable, "-S", "-c", "import subprocess, sys, time; p = subprocess.Popen(sys.argv[1:]); "
         "print(p.pid, flush=True); time.sleep(600)", *SAMPLE_SERVER],
        stdin=reading, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment(), start_new_session=True,
    )
    os.close(reading)
    try:
        assert parent.stdout is not None
        server = int(parent.stdout.readline())
        messages = [
            {"id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                                                         "clientInfo": {"name": "raw", "version": "0"}}},
            {"method": "notifications/initialized"},
            {"id": 2, "method": "tools/call", "params": {"name": "wait", "arguments": {"timeout": seconds}}},
        ]
        for message in messages:
            os.write(writing, json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        assert wait_until(lambda: processes_of(marker), 10)
        parent.kill()
        parent.wait(10)
        assert wait_until(lambda: not processes_of(marker) and not Path(f"/proc/{server}").exists(), 10)
    finally:
        os.close(writing)
        parent.kill()
        parent.communicate()
