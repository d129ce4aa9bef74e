"""Serves tools/list and tools/call: checks arguments, runs the tool in the engine, tells progress, answers."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import anyio
from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ListToolsResult,
    PaginatedRequestParams,
    ToolAnnotations,
)
from mcp_types import Tool as Offered

from hotkernel import tools
from hotkernel.errors import ToolError
from hotkernel.mcp import answers, schemas
from hotkernel.mcp.jobs import Call, Engine, State
from hotkernel.mcp.surroundings import Surroundings
from hotkernel.parameter import Bounds
from hotkernel.render import clean
from hotkernel.schema.plain import to_plain
from hotkernel.session import Session
from hotkernel.tool import Hints, Listed, Tool, describe

TICK_S = 1.0  # a client hears of a long call for the first time after this
QUIET_TICKS = 4  # and at least this often when nothing new is said
AT_ONCE = 32  # short calls; long ones wait for the card, not for a place

Progress = Callable[[float, float | None, str | None], Awaitable[None]]
Context = ServerRequestContext[Any, Any]


@dataclass(frozen=True)
class JobAnswer:
    """A long call that went on after its own answer: where it stands, and its result once it has one."""

    job: str | None = None
    tool: str | None = None
    message: str | None = None
    ran_s: float | None = None
    result: dict[str, Any] | None = None
    jobs: tuple[dict[str, Any], ...] = ()


def job(
    session: Session,
    action: Annotated[Literal["get", "wait", "cancel", "list"], "what to do"],
    id: Annotated[str, "the job, as the running call named it; not for list"] = "",
    wait_s: Annotated[float, "how long wait may take", Bounds(0, 3600)] = schemas.WAIT_S,
) -> JobAnswer:
    """Fetch, wait for, cancel or list the calls that answered `running`.

    One that has ended gives its tool's `result`, or its error.
    """
    raise NotImplementedError("the door answers this one itself: it alone knows the calls")


JOB = describe(Listed("job", __name__, "Fetch a call that went on", Hints(idempotent=True)), job)


class Door:
    """The tools of one server."""

    def __init__(self, listed: Sequence[Listed], surroundings: Surroundings, engine: Engine) -> None:
        self.listed = tuple(each for each in listed if not each.is_for_people)
        self.surroundings = surroundings
        self.engine = engine
        self._places = anyio.CapacityLimiter(AT_ONCE)

    async def list_tools(self, _context: Context, _params: PaginatedRequestParams | None) -> ListToolsResult:
        """tools/list: always the same bytes."""
        return ListToolsResult(tools=[offer(tool) for tool in (*(each.load() for each in self.listed), JOB)])

    async def call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """tools/call: a refused argument and a failed tool are answers, an unknown tool is a protocol error."""
        given = dict(params.arguments or {})
        tool = self.find(params.name)
        try:
            if tool is JOB:
                return await self._job(JOB.read(given))
            wait_s = self.wait_s(tool, given)
            arguments = self.check(tool, given)
        except ToolError as error:
            return answers.failure(error)
        if tool.listed.is_long:
            return await self._follow(self.start(tool, arguments), wait_s, context.session.report_progress)
        async with self._places:
            return await self._follow(self.start(tool, arguments), math.inf, context.session.report_progress)

    def find(self, name: str) -> Tool:
        """The tool of that name; a protocol error when there is none."""
        try:
            return JOB if name == JOB.name else tools.find(name, self.listed)
        except ToolError as error:
            raise MCPError(INVALID_PARAMS, clean(str(error), 1000)) from None

    def wait_s(self, tool: Tool, given: dict[str, Any]) -> float:
        """How long the caller will wait; taken out of what was given."""
        if not tool.listed.is_long or "wait_s" not in given:
            return float(schemas.WAIT_S)
        return float(schemas.WAIT.read(given.pop("wait_s")))

    def check(self, tool: Tool, given: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call, read and confined; ToolError where they are refused."""
        arguments = tool.read(given)
        self.surroundings.confine(tool, arguments)
        return arguments

    def start(self, tool: Tool, arguments: Mapping[str, Any]) -> Call:
        """Start a call whose arguments were checked."""
        return self.engine.start(tool, arguments, self.surroundings.session, self.surroundings.job())

    def answer(self, call: Call) -> CallToolResult:
        """The answer of an ended call, which is forgotten by that."""
        self.engine.forget(call)
        return answers.answer(call, self.surroundings.roots[0])

    async def _follow(self, call: Call, wait_s: float, progress: Progress) -> CallToolResult:
        """Wait for a call, telling how far it is; a caller that goes away takes the call with it."""
        try:
            if await self._watch(call, wait_s, progress):
                return self.answer(call)
            return answers.running(call)
        except anyio.get_cancelled_exc_class():
            await self.engine.cancel(call)
            self.engine.forget(call)
            raise

    async def _watch(self, call: Call, wait_s: float, progress: Progress) -> bool:
        deadline = anyio.current_time() + wait_s
        told, ticks = "", 0
        while not await self.engine.wait(call, min(TICK_S, deadline - anyio.current_time())):
            if anyio.current_time() >= deadline:
                return False
            text, ticks = answers.progress_text(call), ticks + 1
            if text != told or ticks >= QUIET_TICKS:
                told, ticks = text, 0
                await progress(round(call.ran_s, 2), None, clean(text))
        return True

    async def _job(self, arguments: Mapping[str, Any]) -> CallToolResult:
        action = arguments["action"]
        if action == "list":
            rows = tuple({"status": str(call.state), **to_plain(_named(call)), "message": answers.progress_text(call)}
                         for call in self.engine.all())
            return answers.success(JOB, JobAnswer(jobs=rows), self.surroundings.roots[0])
        call = self.engine.get(arguments.get("id", ""))
        if action == "cancel" and call.state is State.RUNNING:
            await self.engine.cancel(call)
        if action == "wait":
            await self.engine.wait(call, arguments.get("wait_s", schemas.WAIT_S))
        return self._standing(call)

    def _standing(self, call: Call) -> CallToolResult:
        """Where a job stands, with its answer once there is one; it is kept, for an answer may be lost on its way."""
        named = _named(call)
        if call.state is State.RUNNING:
            return answers.running(call, **to_plain(named))
        root = self.surroundings.roots[0]
        if call.state is State.CANCELLED:
            return answers.told(answers.with_envelope(to_plain(named)) | {"status": "cancelled"})
        found = answers.answer(call, root)
        if found.is_error or found.structured_content is None:
            return found
        whole = to_plain(replace(named, result=found.structured_content))
        return CallToolResult(content=found.content, structured_content=answers.with_envelope(whole))


def _named(call: Call) -> JobAnswer:
    return JobAnswer(job=call.id, tool=call.tool.name, ran_s=round(call.ran_s, 1))


def offer(tool: Tool) -> Offered:
    """A tool as tools/list shows it."""
    hints = tool.listed.hints
    return Offered(
        name=tool.name,
        title=tool.listed.title,
        description=tool.text,
        input_schema=schemas.input_schema(tool),
        output_schema=schemas.output_schema(tool),
        annotations=ToolAnnotations(
            title=tool.listed.title,
            read_only_hint=hints.read_only,
            destructive_hint=hints.destructive,
            idempotent_hint=hints.idempotent,
            open_world_hint=hints.open_world,
        ),
    )
