"""Serves the prompts, which hand an agent the method, and completes their arguments; runs nothing."""

from __future__ import annotations

from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    CompleteRequestParams,
    CompleteResult,
    Completion,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)

from hotkernel.mcp.resources import GUIDE, Shelf
from hotkernel.render import clean

OFFERED = 100  # completions at most

Context = ServerRequestContext[Any, Any]

_SPEEDRUN = Prompt(
    name="kernel-speedrun",
    title="Make a kernel faster",
    description="The whole method: profile, roofline, one change, verify, record, keep or revert",
    arguments=[
        PromptArgument(name="target", description="the target's name, or module:function of yours", required=False),
        PromptArgument(name="goal", description="what would be good enough, in your own words", required=False),
    ],
)


class Prompts:
    """The prompts of one server."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def listing(self, _context: Context, _params: PaginatedRequestParams | None) -> ListPromptsResult:
        """prompts/list."""
        return ListPromptsResult(prompts=[_SPEEDRUN])

    async def get(self, _context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """prompts/get: the guide, and what it is to be used on."""
        if params.name != _SPEEDRUN.name:
            raise MCPError(INVALID_PARAMS, f"there is no prompt {clean(params.name, 80)!r}; there is {_SPEEDRUN.name}")
        given = params.arguments or {}
        unknown = sorted(set(given) - {each.name for each in _SPEEDRUN.arguments or ()})
        if unknown:
            raise MCPError(INVALID_PARAMS, f"{_SPEEDRUN.name} has no argument {clean(unknown[0], 80)!r}")
        target = clean(given.get("target", "")) or "the function that the user names"
        goal = clean(given.get("goal", ""), 1000)
        method = GUIDE.read_text(encoding="utf-8").split("---\n", 2)[2].strip()
        text = f"Make this faster: {target}\n" + (f"Good enough: {goal}\n" if goal else "") + f"\n{method}\n"
        return GetPromptResult(description=_SPEEDRUN.description,
                               messages=[PromptMessage(role="user", content=TextContent(type="text", text=text))])

    async def complete(self, _context: Context, params: CompleteRequestParams) -> CompleteResult:
        """completion/complete: the names of targets, for the prompt and for a record's address."""
        known = self._shelf.targets() if params.argument.name == "target" else []
        values = [name for name in known if name.startswith(params.argument.value)]
        return CompleteResult(completion=Completion(values=values[:OFFERED], total=len(values),
                                                    has_more=len(values) > OFFERED))
