"""One argument of a tool: its type in JSON's words, its bounds, and the reading of a value; knows no tool."""

from __future__ import annotations

import collections.abc
import dataclasses
import difflib
import enum
import inspect
import json
import math
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hotkernel.errors import ToolError

TEXT_LIMIT = 4096  # characters of one argument; a longer one is a file's content, not a name
FREE_TEXT = frozenset({"args", "cmd", "note", "who"})  # these may begin with "-"; names, paths and patterns may not


class ArgumentError(ToolError):
    """An argument that is unknown, missing, of another type or out of bounds."""

    code = "bad_argument"


@dataclass(frozen=True)
class Bounds:
    """Inside `Annotated`: the smallest and the largest value a number may have."""

    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, init=False)
class Choices:
    """Inside `Annotated`: the words an argument may be."""

    words: tuple[str, ...]

    def __init__(self, *words: str) -> None:
        object.__setattr__(self, "words", words)


@dataclass(frozen=True, init=False)
class Alias:
    """Inside `Annotated`: other names by which callers already know an argument."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


# What a word means at every tool, unless the tool's own annotation says otherwise.
_BOUNDS = {
    "timeout": Bounds(0.1, 86_400),
    "n": Bounds(1, 1000),
    "top": Bounds(1, 1000),
    "warmup": Bounds(0, 1000),
    "offset": Bounds(0, 1_000_000_000),
    "max_lines": Bounds(-1, 10_000_000),
    "iters": Bounds(1, 1_000_000),
    "seed": Bounds(0, 2**53 - 1),  # JSON's numbers are exact up to here
    "rtol": Bounds(0, 1),
    "atol": Bounds(0, 1e6),
    "flops": Bounds(0, 1e24),
    "bytes": Bounds(0, 1e18),
    "min_bytes": Bounds(0, 1e18),
    "measured_mem_gbs": Bounds(0, 1e6),
    "ncu_launch_count": Bounds(1, 10_000),
    "ncu_launch_skip": Bounds(0, 1_000_000_000),
}
_ALIASES = {"from_": Alias("from"), "report": Alias("summary_csv")}
_WORD_OF = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


@dataclass(frozen=True)
class Parameter:
    """One argument, in JSON's own words."""

    name: str
    types: tuple[str, ...]  # of string, integer, number, boolean, array, object, null
    help: str
    default: Any = inspect.Parameter.empty
    item_type: str | None = None
    bounds: Bounds | None = None
    choices: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def is_required(self) -> bool:
        return self.default is inspect.Parameter.empty

    def schema(self) -> dict[str, Any]:
        """This argument as JSON schema, one type to a branch: some clients know no more.

        An argument that may be null may as well be left out, so null is not named.
        """
        branches = [self._branch(word) for word in self.types if word != "null"]
        schema: dict[str, Any] = branches[0] if len(branches) == 1 else {"anyOf": branches}
        schema["description"] = self.help
        if not self.is_required and self.default not in (None, "", False, []):  # what nobody would expect otherwise
            schema["default"] = self.default
        return schema

    def read(self, value: Any) -> Any:
        """`value`, from JSON or from a command line, as this argument takes it; ArgumentError when it is none."""
        value = _fit(value, self.types)
        if not _is_one_of(value, self.types):
            wanted = " or ".join(_article(word) for word in self.types if word != "null")
            raise ArgumentError(f"{self.name} must be {wanted}, not {shown(value)}", fix=self.help)
        if isinstance(value, list):
            value = [self._read_item(item) for item in value]
        elif isinstance(value, str):
            self._check_text(value)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self._check_number(value)
        return value

    def _branch(self, word: str) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": word}
        if word == "array":
            schema["items"] = {"type": self.item_type or "string"}
        if word == "string":
            schema |= {"enum": list(self.choices)} if self.choices else {"maxLength": TEXT_LIMIT}
        if word in ("integer", "number") and self.bounds:
            known = {"minimum": self.bounds.low, "maximum": self.bounds.high}
            schema |= {name: bound for name, bound in known.items() if bound is not None}
        return schema

    def _read_item(self, item: Any) -> Any:
        wanted = self.item_type or "string"
        item = _fit(item, (wanted,))
        if not _is_one_of(item, (wanted,)):
            raise ArgumentError(f"each of {self.name} must be {_article(wanted)}, not {shown(item)}", fix=self.help)
        if isinstance(item, str):
            self._check_text(item)
        return item

    def _check_text(self, text: str) -> None:
        if self.choices and text not in self.choices:
            near = difflib.get_close_matches(text, self.choices, 1)
            hint = f"did you mean {near[0]!r}?" if near else "give one of these"
            raise ArgumentError(f"{self.name}={shown(text)} is none of {', '.join(self.choices)}", fix=hint)
        if "\0" in text:
            raise ArgumentError(f"{self.name} holds a NUL character", fix="leave it out")
        if len(text) > TEXT_LIMIT:
            raise ArgumentError(f"{self.name} has {len(text)} characters", fix=f"give at most {TEXT_LIMIT}")
        if self.name in FREE_TEXT:
            return
        if text.startswith("-"):
            raise ArgumentError(f"{self.name} begins with '-': {shown(text)}",
                                fix="a name, path or pattern may not; write ./-name for such a file")
        if text.startswith("file:"):
            raise ArgumentError(f"{self.name} is a URL: {shown(text)}", fix="give a plain path")

    def _check_number(self, number: float) -> None:
        bounds = self.bounds or Bounds()
        if not math.isfinite(number):
            raise ArgumentError(f"{self.name} is {number}", fix="give a finite number")
        if (bounds.low is not None and number < bounds.low) or (bounds.high is not None and number > bounds.high):
            raise ArgumentError(f"{self.name}={number} is out of bounds",
                                fix=f"give a number from {bounds.low} to {bounds.high}")


def parameter(name: str, hint: Any, default: Any) -> Parameter:
    """Read one argument's description from its annotation and its default."""
    kind, notes = hint, tuple[Any, ...]()
    if typing.get_origin(hint) is typing.Annotated:
        kind, *rest = typing.get_args(hint)
        notes = tuple(rest)
    words, item_type, choices = _words(kind)
    bounds = next((note for note in notes if isinstance(note, Bounds)), None)
    named = next((note for note in notes if isinstance(note, Choices)), None)
    alias = next((note for note in notes if isinstance(note, Alias)), _ALIASES.get(name))
    if isinstance(default, enum.Enum):
        default = default.value
    return Parameter(
        name=name,
        types=words,
        help=next((note for note in notes if isinstance(note, str)), ""),
        default=list(default) if isinstance(default, tuple) else default,
        item_type=item_type,
        bounds=bounds or (_BOUNDS.get(name) if {"integer", "number"} & set(words) else None),
        choices=named.words if named else choices,
        aliases=alias.names if alias else (),
    )


def shown(value: Any) -> str:
    """`value` as an error may quote it."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _words(kind: Any) -> tuple[tuple[str, ...], str | None, tuple[str, ...]]:
    """JSON's words for a Python type, the type of an array's items, and the words of an enumeration."""
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        parts = [_words(part) for part in typing.get_args(kind)]
        words = tuple(dict.fromkeys(word for part in parts for word in part[0]))
        return words, next((part[1] for part in parts if part[1]), None), tuple(w for part in parts for w in part[2])
    if origin is typing.Literal:
        return ("string",), None, tuple(typing.get_args(kind))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return ("string",), None, tuple(str(member.value) for member in kind)
    if origin in (list, tuple, collections.abc.Sequence):
        return ("array",), _words(typing.get_args(kind)[0])[0][0], ()
    if origin in (dict, collections.abc.Mapping) or kind is dict or dataclasses.is_dataclass(kind):
        return ("object",), None, ()
    return (_WORD_OF[kind],), None, ()


def _is_one_of(value: Any, words: tuple[str, ...]) -> bool:
    if isinstance(value, (list, tuple)):
        return "array" in words
    if isinstance(value, Mapping):
        return "object" in words
    word = _WORD_OF.get(type(value))
    return word in words or (word == "integer" and "number" in words)


def _fit(value: Any, words: tuple[str, ...]) -> Any:
    """`value` where it says plainly what is wanted in another spelling: "5" for 5, 5.0 for 5, one word for a list."""
    if isinstance(value, float) and value.is_integer() and "integer" in words and "number" not in words:
        return int(value)
    if not isinstance(value, str):
        return value
    if value[:1] in ("{", "[") and {"object", "array"} & set(words):
        try:
            return json.loads(value)
        except ValueError:
            return value
    if "string" in words:
        return value
    if "array" in words:
        return [value]
    if "boolean" in words and value.lower() in ("true", "false"):
        return value.lower() == "true"
    for word, number in (("integer", int), ("number", float)):
        if word in words:
            try:
                return number(value)
            except ValueError:
                continue
    return value


def _article(word: str) -> str:
    return f"an {word}" if word[0] in "aio" else f"a {word}"
