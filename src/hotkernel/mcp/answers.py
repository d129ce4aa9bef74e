"""Makes MCP answers of what tools return and raise: short text, bounded structured content, errors with a fix."""

from __future__ import annotations

import base64
import json
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from mcp_types import CallToolResult, ContentBlock, ImageContent, ResourceLink, TextContent

from hotkernel.errors import ToolError
from hotkernel.mcp.jobs import Call, State
from hotkernel.render import clean, clean_all, summary
from hotkernel.schema.plain import to_plain
from hotkernel.tool import Tool

SCHEMA_VERSION = 1
INLINE = 11_000  # characters: Codex cuts the middle out of anything above about 12 kB
WHOLE_FOLDER = ".hotkernel"  # below the working root: results too large to be told
ROOM_FOR_LINK = 500
FEWEST = 3  # a list is never cut to less
LONG_TEXT = 600  # characters of a text inside of something, a source file say
_RETRYABLE = frozenset({"gpu_busy", "timeout", "cancelled"})
# For errors that carry no code of their own: the words that tell them apart, first match wins.
_CODES = (
    ("permission_counters", r"ERR_NVGPUCTRPERM|performance counters"),
    ("gpu_busy", r"another hotkernel|\bbusy\b"),
    ("timeout", r"did not end within|timed? ?out\b(?!=)|ran out of its timeout"),
    ("tool_missing", r"not on this machine|is not installed|is no program|no Python with torch|cannot be started|"
                     r"nothing here can read|cannot import torch"),
    ("no_gpu", r"no (?:NVIDIA )?(?:GPU|driver)|no card(?: \S+)? is here|has no card|torch has no CUDA"),
    ("script_failed", r"exit status|printed no|raised an error|reference failed|was profiled|no launch matched|"
                      r"captured nothing|saw no kernel"),
    ("parse_failed", r"cannot (?:be )?read|could not (?:import|export)|is (?:damaged|cut off|empty|a broken)|"
                     r"is not (?:an? )?.*(?:report|trace|nsys)|holds no|is text, but|without any result|is none of \."),
    ("bad_path", r"no such (?:file|folder)|a path is empty|is no (?:file|folder)|was not written|"
                 r"cannot be (?:made|locked|written)"),
    ("internal", r"ended without an answer|the oracle ended|has ended by itself"),
)


def answer(call: Call, root: Path) -> CallToolResult:
    """The answer of a call that has ended; the same however often it is asked for."""
    if call.answer is None:
        call.answer = _answer(call, root)
    return cast(CallToolResult, call.answer)


def success(tool: Tool, result: Any, root: Path) -> CallToolResult:
    """What a tool returned: an image where it is one, else structured content and at most ten lines of it."""
    if tool.listed.is_picture:
        return _picture(result)
    whole = clean_all(to_plain(result))
    told, link = _fit(tool, with_envelope(whole), root)
    content: list[ContentBlock] = [TextContent(type="text", text=summary(told))]
    return CallToolResult(content=[*content, *link], structured_content=told)


def running(call: Call, **more: Any) -> CallToolResult:
    """A call that goes on: where to ask for it again."""
    told = {
        **with_envelope(more),
        "status": "running",
        "job": call.id,
        "ran_s": round(call.ran_s, 1),
        "message": clean(progress_text(call)),
    }
    text = f"{summary(told)}\nask again with job(action='wait', id='{call.id}')"
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=told)


def told(structured: dict[str, Any]) -> CallToolResult:
    """An answer that is small and clean already."""
    return CallToolResult(content=[TextContent(type="text", text=summary(structured))], structured_content=structured)


def failure(error: BaseException, code: str = "") -> CallToolResult:
    """An error in both forms, whole: some clients show only the text, others only the structured content."""
    if not isinstance(error, ToolError):
        error = ToolError("hotkernel failed inside; this is a bug", fix="report it with the call and the server's log")
        code = "internal"
    code = code or code_of(error)
    told = {
        "schema_version": SCHEMA_VERSION,
        "status": "error",
        "code": code,
        "message": clean(error.message, 2000),
        "fix": clean(error.fix, 2000),
        "retryable": code in _RETRYABLE,
        "details": clean(error.detail, 4000, lines=True),
    }
    lines = [f"{told['message']} [{code}]", f"fix: {told['fix']}", *([str(told["details"])] if told["details"] else [])]
    text = TextContent(type="text", text="\n".join(lines))
    return CallToolResult(content=[text], structured_content=told, is_error=True)


def with_envelope(plain: Mapping[str, Any]) -> dict[str, Any]:
    """What every answer carries, beside its own keys."""
    return {"schema_version": SCHEMA_VERSION, "status": "done", "warnings": [], "truncated": False, **plain}


def code_of(error: ToolError) -> str:
    """The error's own code, else the one that its words mean."""
    own = getattr(error, "code", "")
    if own:
        return str(own)
    return next((code for code, words in _CODES if re.search(words, error.message)), "bad_argument")


def progress_text(call: Call) -> str:
    """How far a call is, in words."""
    said = call.said
    return said.message if said.done is None or said.total is None else f"{said.message} {said.done}/{said.total}"


def _answer(call: Call, root: Path) -> CallToolResult:
    if call.state is State.CANCELLED:
        return failure(ToolError(f"{call.tool.name} was cancelled", fix="call it again when it is wanted"), "cancelled")
    if call.error is not None:
        return failure(call.error)
    return success(call.tool, call.result, root)


def _picture(result: Any) -> CallToolResult:
    plain = clean_all(to_plain(result))
    text = TextContent(type="text", text=summary(plain))
    if plain["media_type"] != "image/png":  # clients show no other kind: its path must do
        return CallToolResult(content=[text])
    png = Path(plain["path"]).read_bytes()
    image = ImageContent(type="image", data=base64.b64encode(png).decode("ascii"), mime_type="image/png")
    return CallToolResult(content=[text, image])


def _fit(tool: Tool, told: dict[str, Any], root: Path) -> tuple[dict[str, Any], list[ContentBlock]]:
    """`told` cut to what clients pass on whole; then all of it lies in a file that it names."""
    limit = INLINE + sum(len(value) for value in told.values() if isinstance(value, str))  # a page keeps its length
    if _size(told) <= limit:
        return told, []
    cut = json.loads(json.dumps(told))
    lengths: dict[str, int] = {}
    while _size(cut) > limit - ROOM_FOR_LINK and _cut_largest(cut, lengths):
        pass
    cut |= {"truncated": True, "lengths": lengths}
    try:
        path = _write_whole(tool, told, root)
    except OSError as error:
        cut["warnings"] = [*cut["warnings"], f"the whole result could not be saved: {error.strerror}"]
        return cut, []
    cut["whole"] = str(path)
    uri = f"hotkernel://result/{path.stem}"
    return cut, [ResourceLink(type="resource_link", uri=uri, name=path.name, mime_type="application/json",
                              description="the whole result")]


def _cut_largest(told: dict[str, Any], lengths: dict[str, int]) -> bool:
    """Halve the largest list or inner text, or empty the largest object once there is none; false when nothing is."""
    parts = _parts(told)
    halved = [part for part in parts if isinstance(part[2], (list, str))]
    emptied = [part for part in parts if isinstance(part[2], dict)]
    if not halved and not emptied:
        return False
    _, where, value = max(halved or emptied, key=lambda part: part[0])
    holder: Any = told
    for step in where[:-1]:
        holder = holder[step]
    lengths.setdefault(".".join(map(str, where)), len(value))
    if isinstance(value, str):
        holder[where[-1]] = value[: len(value) // 2] + "…"
    else:
        holder[where[-1]] = value[: max(FEWEST, len(value) // 2)] if isinstance(value, list) else {}
    return True


def _parts(value: Any, where: tuple[Any, ...] = ()) -> list[tuple[int, tuple[Any, ...], Any]]:
    """What may be cut: longer lists, texts inside of something, and whole objects of the first level; with their sizes."""
    if isinstance(value, str):
        return [(len(value), where, value)] if len(value) > LONG_TEXT and len(where) > 1 else []
    if not isinstance(value, (dict, list)):
        return []
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = [part for key, item in inner for part in _parts(item, (*where, key))]
    size = _size(value)
    if (isinstance(value, list) and len(value) > FEWEST) or (isinstance(value, dict) and len(where) == 1 and size > 1000):
        found.append((size, where, value))
    return found


def _write_whole(tool: Tool, told: Mapping[str, Any], root: Path) -> Path:
    folder = root / WHOLE_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
    path = folder / f"{tool.name}-{time.strftime('%Y%m%dT%H%M%S')}-{secrets.token_hex(3)}.json"
    path.write_text(json.dumps(told, indent=1), encoding="utf-8")
    return path


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False))
