"""What a tool is: a description read from a plain function, the same for both doors; touches nothing itself."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hotkernel.parameter import Alias, ArgumentError, Bounds, Choices, Parameter, parameter, shown

__all__ = ["Alias", "ArgumentError", "Bounds", "Choices", "Hints", "Listed", "Tool", "describe", "unknown"]


@dataclass(frozen=True)
class Hints:
    """What a client may take for granted before it calls: MCP's four hints."""

    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False  # runs the user's own code, which may do anything


@dataclass(frozen=True)
class Listed:
    """One line of the list of tools: enough for an index, without importing the tool."""

    name: str
    module: str  # dotted, whole
    title: str
    hints: Hints
    is_long: bool = False  # may take more than a few seconds
    places: tuple[str, ...] = ()  # the arguments that say where files are written
    is_picture: bool = False  # the answer is an image, with no structured content
    is_for_people: bool = False  # in a terminal alone: it says what counts, which is not for who is counted

    def load(self) -> Tool:
        """The tool itself; imports its module."""
        return _load(self)


@dataclass(frozen=True)
class Tool:
    """A plain function with everything both doors need to know of it."""

    listed: Listed
    text: str
    parameters: tuple[Parameter, ...]
    result: type
    function: Callable[..., Any]

    @property
    def name(self) -> str:
        return self.listed.name

    @property
    def required(self) -> tuple[Parameter, ...]:
        return tuple(each for each in self.parameters if each.is_required)

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """A call's arguments, checked; one that is unknown, given twice, missing or ill-typed raises ArgumentError."""
        by_name = {name: each for each in self.parameters for name in (each.name, *each.aliases)}
        arguments: dict[str, Any] = {}
        for name, value in given.items():
            if name not in by_name:
                names = [each.name for each in self.parameters]
                raise unknown(f"{self.name} has no argument {shown(name)}", name, names)
            known = by_name[name]
            if known.name in arguments:
                raise ArgumentError(f"{known.name} is given twice, once as {name!r}", fix=f"give {known.name} alone")
            arguments[known.name] = known.read(value)
        missing = [each for each in self.required if each.name not in arguments]
        if missing:
            raise ArgumentError(f"{self.name} needs {' and '.join(each.name for each in missing)}",
                                fix="; ".join(f"{each.name}: {each.help}" for each in missing))
        return arguments


def describe(listed: Listed, function: Callable[..., Any]) -> Tool:
    """Read a tool's description from its function; the session comes first and is no argument."""
    hints = typing.get_type_hints(function, include_extras=True)
    signature = list(inspect.signature(function).parameters.values())[1:]
    return Tool(
        listed=listed,
        text=inspect.getdoc(function) or listed.title,
        parameters=tuple(parameter(each.name, hints[each.name], each.default) for each in signature),
        result=hints["return"],
        function=function,
    )


def unknown(message: str, name: str, known: Iterable[str]) -> ArgumentError:
    """The error for a name that does not exist, with the nearest that does."""
    names = list(known)
    near = difflib.get_close_matches(name, names, 1, cutoff=0.5)
    suggestion = f"did you mean {near[0]!r}? " if near else ""
    return ArgumentError(message, fix=f"{suggestion}known: {', '.join(names) or 'none'}")


@functools.cache
def _load(listed: Listed) -> Tool:
    module = importlib.import_module(listed.module)
    return describe(listed, getattr(module, listed.name))
