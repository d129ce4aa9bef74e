"""Clients for the agent's door: the SDK's own, in memory and over stdio, and a raw one that sees every byte."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp import Client, StdioServerParameters
from samples import SAMPLES

from hotkernel.mcp.jobs import Engine
from hotkernel.mcp.surroundings import Surroundings
from hotkernel.mcp_server import build
from hotkernel.tool import Listed

SOURCES = Path(__file__).parents[2] / "src"
SAMPLE_SERVER = [sys.executable, str(Path(__file__).with_name("sample_server.py"))]
REAL_SERVER = [sys.executable, "-P", "-m", "hotkernel.cli"]
ERAS = {"2026-07-28": "auto", "2025-11-25": "legacy"}


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCES), **more}


@contextlib.asynccontextmanager
async def in_memory(root: Path, listed: Sequence[Listed] = SAMPLES, *, mode: str = "auto",
                    variables: Mapping[str, str] | None = None, engine: Engine | None = None) -> AsyncIterator[Client]:
    """A client of a server in this process."""
    surroundings = Surroundings.of({**os.environ, **(variables or {})}, root)
    async with Client(build(listed, surroundings, engine or Engine()), mode=mode) as client:
        yield client


@contextlib.asynccontextmanager
async def over_stdio(argv: Sequence[str] = SAMPLE_SERVER, *, mode: str = "auto", cwd: Path | None = None,
                     **variables: str) -> AsyncIterator[Client]:
    """A client of a server that is a child process."""
    server = StdioServerParameters(command=argv[0], args=list(argv[1:]), env=environment(**variables),
                                   cwd=None if cwd is None else str(cwd))
    async with Client(server, mode=mode) as client:
        yield client


def run(work: Callable[[], Any]) -> Any:
    """Run an async test body."""
    async def bounded() -> Any:
        with anyio.fail_after(60):
            return await work()

    return anyio.run(bounded)


class Raw:
    """A client of a few lines that keeps what the server wrote, byte for byte."""

    def __init__(self, argv: Sequence[str] = SAMPLE_SERVER, **variables: str) -> None:
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        env=environment(**variables), start_new_session=True)
        self.lines: list[bytes] = []
        self._ids = itertools.count(1)

    def initialize(self) -> dict[str, Any]:
        answer = self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                         "clientInfo": {"name": "raw", "version": "0"}})
        self.send({"method": "notifications/initialized"})
        return answer

    def send(self, message: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        number = next(self._ids)
        self.send({"id": number, "method": method, "params": params or {}})
        while True:
            answer = self.read()
            if answer.get("id") == number:
                return answer

    def leave(self) -> None:
        """Close the server's standard input, as a client does that is done."""
        assert self.process.stdin is not None
        self.process.stdin.close()

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise EOFError(self.process.communicate()[1].decode())
        self.lines.append(line)
        found: dict[str, Any] = json.loads(line)
        return found


@contextlib.contextmanager
def raw(argv: Sequence[str] = SAMPLE_SERVER, **variables: str) -> Iterator[Raw]:
    """A raw client; its server is gone afterwards."""
    client = Raw(argv, **variables)
    try:
        yield client
    finally:
        client.process.kill()
        client.process.wait(10)
        for pipe in (client.process.stdin, client.process.stdout, client.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was never sent cannot be flushed any more
                    pipe.close()


def processes_of(marker: str) -> list[int]:
    """The processes whose command line holds `marker`."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if marker in (entry / "cmdline").read_text(encoding="utf-8", errors="replace"):
                    found.append(int(entry.name))
    return found


def wait_until(condition: Callable[[], Any], timeout_s: float) -> bool:
    """Whether `condition` came true within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


_marks = itertools.count(1)


def unique_seconds() -> float:
    """A time to sleep that no other test's child sleeps, so that its processes can be told apart."""
    return 1000 + os.getpid() % 1000 + next(_marks) / 1000
