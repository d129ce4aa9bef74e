"""Writes a result's dataclass as JSON schema, one level deep: enough to rely on, short enough for every client."""

from __future__ import annotations

import dataclasses
import enum
import types
import typing
from typing import Any

from hotkernel.parameter import Bounds, Parameter
from hotkernel.tool import Tool

WAIT_S = 240  # Codex ends a call at 300 s whatever progress it reports
WAIT = Parameter("wait_s", ("number",), "seconds; then see job",
                 default=WAIT_S, bounds=Bounds(0, 3600))
# Beside each result's own keys: whether the call is done or still running, and then which job fetches the rest.
_ENVELOPE: dict[str, Any] = {"schema_version": {"type": "integer"}, "status": {"type": "string"}}
_RUNNING: dict[str, Any] = {"job": {"type": "string"}}
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


def input_schema(tool: Tool) -> dict[str, Any]:
    """What a call may say; a long tool takes wait_s too."""
    schema: dict[str, Any] = {"type": "object", "properties": {each.name: each.schema() for each in tool.parameters}}
    if tool.listed.is_long:  # of its default the instructions tell, once for all tools
        schema["properties"][WAIT.name] = {name: value for name, value in WAIT.schema().items() if name != "default"}
    if tool.required:
        schema["required"] = [each.name for each in tool.required]
    return schema


def output_schema(tool: Tool) -> dict[str, Any] | None:
    """What an answer holds; null for a picture, which has no structured content.

    Only what every answer has is required: a long call may answer `running`, and the TypeScript client holds errors
    against this schema too.
    """
    if tool.listed.is_picture:
        return None
    hints = typing.get_type_hints(tool.result)
    own = {field.name: _brief(hints[field.name]) for field in dataclasses.fields(tool.result)}
    properties = {**_ENVELOPE, **(_RUNNING if tool.listed.is_long else {}), **own}
    return {"type": "object", "properties": properties, "required": list(_ENVELOPE)}


def _brief(kind: Any) -> dict[str, Any]:
    words = _words(kind)
    return {"type": words[0] if len(words) == 1 else words} if words else {}


def _words(kind: Any) -> list[str]:
    origin = typing.get_origin(kind)
    if origin is typing.Annotated:
        return _words(typing.get_args(kind)[0])
    if origin in (typing.Union, types.UnionType):
        return list(dict.fromkeys(word for part in typing.get_args(kind) for word in _words(part)))
    if origin in (list, tuple, set, frozenset) or kind in (list, tuple):
        return ["array"]
    if origin is dict or kind is dict or dataclasses.is_dataclass(kind):
        return ["object"]
    if origin is typing.Literal or (isinstance(kind, type) and issubclass(kind, (enum.Enum, str))):
        return ["string"]
    if kind is Any:
        return []
    return [_PLAIN.get(kind, "string")]
