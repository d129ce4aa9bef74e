"""The extension io.modelcontextprotocol/tasks: a long call becomes a task where the client knows tasks."""

from __future__ import annotations

import datetime
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolRequestParams,
    CallToolResult,
    RequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS
from pydantic import ConfigDict, Field

from hotkernel.errors import ToolError
from hotkernel.mcp import answers
from hotkernel.mcp.door import Door
from hotkernel.mcp.jobs import KEPT_S, Call, State
from hotkernel.render import clean

EXTENSION = "io.modelcontextprotocol/tasks"
POLL_MS = 1000
# A tool that failed has completed its task, with an answer that says so; `failed` is for protocol errors alone.
_STATUS = {State.RUNNING: "working", State.DONE: "completed", State.FAILED: "completed", State.CANCELLED: "cancelled"}

Context = ServerRequestContext[Any, Any]


class TaskParams(RequestParams):
    """What tasks/get, tasks/update and tasks/cancel are asked with."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)
    task_id: str = Field(alias="taskId")


class Tasks:
    """The tasks of one server."""

    def __init__(self, door: Door) -> None:
        self._door = door

    def install(self, server: Server[Any]) -> None:
        """Announce the extension and answer its methods."""
        server.extensions[EXTENSION] = {}
        server.add_request_handler("tools/call", CallToolRequestParams, self.call_tool)
        server.add_request_handler("tasks/get", TaskParams, self.get)
        server.add_request_handler("tasks/update", TaskParams, self.update)
        server.add_request_handler("tasks/cancel", TaskParams, self.cancel)

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | dict[str, Any]:
        """tools/call: at once a task for a long tool where the client can follow one, else the plain call."""
        tool = self._door.find(params.name)
        if not (tool.listed.is_long and _knows_tasks(context)):
            return await self._door.call_tool(context, params)
        given = dict(params.arguments or {})
        try:
            self._door.wait_s(tool, given)
            arguments = self._door.check(tool, given)
        except ToolError as error:
            return answers.failure(error)
        return {**_task(self._door.start(tool, arguments)), "resultType": "task"}

    async def get(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """tasks/get: where a task stands, with its answer once there is one."""
        call = self._find(context, params)
        told = {**_task(call), "resultType": "complete"}
        if call.state in (State.DONE, State.FAILED):
            result = answers.answer(call, self._door.surroundings.roots[0])
            told["result"] = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return told

    async def update(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """tasks/update: our tasks never ask for anything, so there is nothing to take."""
        self._find(context, params)
        return {"resultType": "complete"}

    async def cancel(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """tasks/cancel: answered once nothing of the task is left running."""
        call = self._find(context, params)
        if call.state is State.RUNNING:
            await self._door.engine.cancel(call)
        return {"resultType": "complete"}

    def _find(self, context: Context, params: TaskParams) -> Call:
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            raise MCPError(METHOD_NOT_FOUND, "Method not found", context.method)
        if not _knows_tasks(context):
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "the client has not declared the tasks extension",
                           {"requiredCapabilities": {"extensions": {EXTENSION: {}}}})
        try:
            return self._door.engine.get(params.task_id)
        except ToolError as error:
            raise MCPError(INVALID_PARAMS, clean(error.message)) from None


def _knows_tasks(context: Context) -> bool:
    declared = context.session.client_capabilities
    return (context.protocol_version in MODERN_PROTOCOL_VERSIONS and declared is not None
            and EXTENSION in (declared.extensions or {}))


def _task(call: Call) -> dict[str, Any]:
    return {
        "taskId": call.id,
        "status": _STATUS[call.state],
        "statusMessage": clean(answers.progress_text(call)),
        "createdAt": _iso(call.started_at),
        "lastUpdatedAt": _iso(call.updated_at),
        "ttlMs": int(KEPT_S * 1000),
        "pollIntervalMs": POLL_MS,
    }


def _iso(moment: datetime.datetime) -> str:
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
