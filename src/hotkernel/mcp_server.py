"""The agent's door: puts the MCP server together and serves it over stdio; every part of it lies in hotkernel.mcp."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from hotkernel import __version__, tools
from hotkernel.mcp.door import Door
from hotkernel.mcp.instructions import INSTRUCTIONS
from hotkernel.mcp.jobs import Engine
from hotkernel.mcp.prompts import Prompts
from hotkernel.mcp.resources import Shelf
from hotkernel.mcp.surroundings import Surroundings
from hotkernel.mcp.tasks import Tasks
from hotkernel.tool import Listed

LEAVE_S = 2.0  # what a call may still clean up after the client has gone; its processes have their own end
PARENT_S = 2.0  # how often the parent is looked at: some clients die with our stdin held open by another


def build(listed: Sequence[Listed], surroundings: Surroundings, engine: Engine) -> Server[Any]:
    """One server object that answers both eras of the protocol."""
    door = Door(listed, surroundings, engine)
    shelf = Shelf(surroundings)
    prompts = Prompts(shelf)
    server: Server[Any] = Server(
        "hotkernel",
        version=__version__,
        title="hotkernel",
        instructions=INSTRUCTIONS,
        on_list_tools=door.list_tools,
        on_list_resources=shelf.listing,
        on_list_resource_templates=shelf.templates,
        on_read_resource=shelf.read,
        on_list_prompts=prompts.listing,
        on_get_prompt=prompts.get,
        on_completion=prompts.complete,
    )
    Tasks(door).install(server)
    return server


def main(listed: Sequence[Listed] | None = None) -> int:
    """Serve over stdio until the client leaves; returns the exit status."""
    surroundings = Surroundings.of(os.environ, Path.cwd())
    anyio.run(_serve, tools.LISTED if listed is None else listed, surroundings)
    return 0


async def _serve(listed: Sequence[Listed], surroundings: Surroundings) -> None:
    engine = Engine()
    server = build(listed, surroundings, engine)
    async with anyio.create_task_group() as group:
        group.start_soon(_leave_on_signals, engine)
        group.start_soon(_leave_with_parent, engine, os.getppid())
        try:
            async with stdio_server() as (reading, writing):
                await server.run(reading, writing, server.create_initialization_options())
        finally:
            await engine.stop(LEAVE_S)
        group.cancel_scope.cancel()


async def _leave_on_signals(engine: Engine) -> None:
    if os.name == "nt":  # its event loop takes no signals; Ctrl-C is a KeyboardInterrupt there
        return
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as received:
        async for number in received:
            await _leave(engine, 128 + number)


async def _leave_with_parent(engine: Engine, parent: int) -> None:
    while os.name == "posix" and os.getppid() == parent:
        await anyio.sleep(PARENT_S)
    if os.name == "posix":
        await _leave(engine, 0)


async def _leave(engine: Engine, status: int) -> None:
    """End this process, which waits in a read that nothing can interrupt; what still runs ends by the life pipe."""
    await engine.stop(LEAVE_S)
    sys.stderr.flush()
    os._exit(status)
