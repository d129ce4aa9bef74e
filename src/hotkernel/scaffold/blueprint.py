"""What a target is to be, as its maker said it, before a file of it exists; checks names alone, the contract checks the rest."""

from __future__ import annotations

import ast
import keyword
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError

NAME_LIMIT = 64
FILE = "file="  # an input whose numbers a file holds
STEPS_UP = 3  # a file further than this above a target's folder is no neighbour of it
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NEXT_INPUT = re.compile(r"[\s;,]+(?=[A-Za-z_]\w*:)")
_FIX_MORE = ("write name=value: constant.eps=1e-6, keywords=mask, writes=x,y, static=weights, backward=true, reduction=4096, "
             "baseline.lib=module:function, case.small=x:64x64 dtype:bf16")
_FIX_FUNCTION = "write module:function, like torch.nn.functional:gelu, or file.py:function, like ./mykernels.py:fused"


@dataclass(frozen=True)
class FunctionPlace:
    """Where a function lies: in a module that Python finds by itself, or in a file of the user's."""

    module: str  # empty for a file
    file: Path | None
    name: str

    @classmethod
    def read(cls, text: str, resolve: Callable[[str], Path], what: str) -> FunctionPlace:
        """`torch.nn.functional:gelu` or `./mykernels.py:fused`; `resolve` makes a path of its text. Raises ToolError."""
        where, colon, name = text.strip().rpartition(":")
        if not colon or not where or not all(map(_is_identifier, name.split("."))):
            raise ToolError(f"{what}: {text!r} names no function", fix=_FIX_FUNCTION)
        if where.endswith(".py"):
            file = resolve(where)
            if not file.is_file():
                raise ToolError(f"{what}: no such file: {file}",
                                fix="check the path; it is resolved from cwd, else from the working root")
            return cls("", file, name)
        if not all(map(_is_identifier, where.split("."))):
            raise ToolError(f"{what}: {where!r} is neither a module nor a .py file", fix=_FIX_FUNCTION)
        return cls(where, None, name)

    @property
    def is_plain_import(self) -> bool:
        """Whether `from module import name` does."""
        return not self.file and "." not in self.name

    def spec(self, folder: Path) -> str:
        """How a file in `folder` names this function to load_function; a near file by a relative path."""
        return f"{near_path(self.file, folder) if self.file else self.module}:{self.name}"

    def __str__(self) -> str:
        return f"{self.file.name if self.file else self.module}:{self.name}"


@dataclass(frozen=True)
class More:
    """What a target says beyond inputs and a reference, by Target's own names."""

    constants: dict[str, Any] = field(default_factory=dict)
    baselines: dict[str, FunctionPlace] = field(default_factory=dict)
    cases: dict[str, dict[str, Any]] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)  # keywords, writes, static, backward, reduction


@dataclass(frozen=True)
class Seen:
    """How the function is called, as the contract found when it ran."""

    positional: tuple[str, ...]
    keywords: tuple[str, ...]
    constants: tuple[str, ...]
    module: str = ""  # `class` or `object`: of a torch.nn.Module, whose weights are one more argument


@dataclass(frozen=True)
class Blueprint:
    """Everything that a target's files say."""

    target: str
    function: FunctionPlace
    inputs: dict[str, str]  # raw tensors in call order: name -> shape[:dtype][<high]
    dtype: str
    rotate: tuple[str, ...]  # empty: the first
    reference: FunctionPlace | None = None
    derive: FunctionPlace | None = None
    takes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)  # what else was said, by Target's own names
    more: More = field(default_factory=More)
    seen: Seen | None = None  # how it is called, once it was tried

    def __post_init__(self) -> None:
        if not _is_identifier(self.target) or len(self.target) > NAME_LIMIT:
            raise ToolError(f"target name {self.target[:80]!r} cannot name files and a function",
                            fix=f"use letters, digits and _, at most {NAME_LIMIT}, no digit first: rmsnorm, gelu_4k")
        for name in (*self.inputs, *self.takes, *self.rotate):
            if not _is_identifier(name):
                raise ToolError(f"{name[:80]!r} is no name for an input", fix="use letters, digits and _, no digit first")
        if self.derive and not (self.takes and self.reference):
            raise ToolError("derive needs inputs, the names that it returns in call order, and a reference",
                            fix="give inputs=[…] and reference=module:function")
        if self.takes and not self.derive:
            raise ToolError("inputs without derive", fix="inputs names what derive returns; for more raw tensors give extra")

    @property
    def arguments(self) -> tuple[str, ...]:
        """What the function is called with, in order."""
        return self.takes or tuple(self.inputs)

    @property
    def file_names(self) -> dict[str, str]:
        """The files of the target, by what they are."""
        return {"contract": "hotkernel_contract.py", "baseline": f"{self.target}_baseline.py",
                "candidate": f"{self.target}_candidate.py"}


def read_inputs(shape: str, extra: Sequence[str]) -> dict[str, str]:
    """`x` of `shape`, then each of `extra`: `w:8192`, `idx:4096:int64<32000`; raises ToolError."""
    found = {"x": _plain(shape)}
    for text in (part for item in extra for part in _NEXT_INPUT.split(item.strip())):
        name, colon, spec = text.partition(":")
        if not colon or not spec.strip():
            raise ToolError(f"extra: {text[:80]!r} is no input",
                            fix="write name:shape, with a dtype where it differs: w:8192, idx:4096:int64<32000")
        if name.strip() in found:
            raise ToolError(f"extra: there are two inputs called {name.strip()!r}",
                            fix="the first input is x; give the others other names")
        found[name.strip()] = _plain(spec)
    return found


def read_more(items: Sequence[str], place: Callable[[str], FunctionPlace]) -> More:
    """`constant.eps=1e-6`, `writes=x,y`, `backward=true`, `baseline.lib=module:function`, `case.small=x:64x64 dtype:bf16`."""
    constants: dict[str, Any] = {}
    baselines: dict[str, FunctionPlace] = {}
    cases: dict[str, str] = {}
    settings: dict[str, Any] = {}
    for item in items:
        key, equals, value = item.strip().partition("=")
        kind, dot, name = key.partition(".")
        if not equals or bool(dot) != (kind in ("constant", "baseline", "case")) or (dot and not _is_identifier(name)):
            raise ToolError(f"more: {item[:80]!r} says nothing", fix=_FIX_MORE)
        if kind == "constant":
            constants[name] = read_constant(value)
        elif kind == "baseline":
            baselines[name] = place(value)
        elif kind == "case":
            cases[name] = value
        elif kind in ("keywords", "writes", "static"):
            settings[kind] = read_names([value])
        elif kind == "backward":
            settings[kind] = value.lower() == "true" or read_names([value])
        elif kind == "reduction" and value.strip().isdigit():
            settings[kind] = int(value)
        else:
            raise ToolError(f"more: {item[:80]!r} says nothing", fix=_FIX_MORE)
    return More(constants, baselines, {name: _read_case(text, constants) for name, text in cases.items()}, settings)


def read_constant(text: str) -> Any:
    """A Python literal, a dtype of torch, else the text itself."""
    try:
        return ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text.strip()


def _read_case(text: str, constants: Mapping[str, Any]) -> dict[str, Any]:
    """`x:64x64 dtype:bf16 eps:1e-5`: inputs, the dtype, constants."""
    found: dict[str, Any] = {}
    for part in _NEXT_INPUT.split(text.strip()) if text.strip() else []:
        name, colon, value = part.partition(":")
        if not colon or not value:
            raise ToolError(f"more: a case cannot say {part[:80]!r}", fix=_FIX_MORE)
        if name == "dtype":
            found["dtype"] = value.strip()
        elif name in constants:
            found.setdefault("constants", {})[name] = read_constant(value)
        else:
            found.setdefault("inputs", {})[name] = _plain(value)
    return found


def read_names(items: Sequence[str]) -> tuple[str, ...]:
    """Names given as a list, or as one text with spaces or commas between them."""
    return tuple(name for item in items for name in re.split(r"[\s,]+", item.strip()) if name)


def near_path(file: Path, folder: Path) -> str:
    """`file` relative to `folder` where it lies near, so that both can be moved together; else absolute."""
    try:
        relative = Path(os.path.relpath(file, folder))
    except ValueError:  # another drive
        return file.as_posix()
    if relative.parts.count("..") > STEPS_UP or len(Path(os.path.commonpath([file, folder])).parts) < 2:
        return file.as_posix()
    return relative.as_posix() if relative.parts[0] == ".." else f"./{relative.as_posix()}"


def _plain(spec: str) -> str:
    return spec.replace(" ", "").strip()


def _is_identifier(name: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(name)) and not keyword.iskeyword(name)
