"""Turns our dataclasses into what JSON can hold and back; knows types, knows no meaning."""

from __future__ import annotations

import dataclasses
import enum
import functools
import math
import types
import typing
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """`value` as dicts, lists, strings, numbers and null; a float that JSON has no word for becomes null."""
    if isinstance(value, enum.Enum):
        return value.value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        return {str(to_plain(key)): to_plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value


def from_plain(kind: type[T], value: Any) -> T:
    """A `kind` made of plain `value`; keys it does not know are left out, as a newer writer may have added them.

    Raises ValueError or TypeError where `value` is no such thing.
    """
    return typing.cast(T, _build(kind, value))


def _build(kind: Any, value: Any) -> Any:
    origin = typing.get_origin(kind)
    if kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return None if value is None else _build(_only_some(kind), value)
    if origin in (list, tuple):
        return origin(_build(_item_kind(kind), item) for item in _expect(value, list, kind))
    if origin is dict:
        item_kind = typing.get_args(kind)[1]
        return {key: _build(item_kind, item) for key, item in _expect(value, dict, kind).items()}
    if dataclasses.is_dataclass(kind):
        hints = _hints(typing.cast(type, kind))
        known = _expect(value, dict, kind)
        return kind(**{name: _build(hints[name], known[name]) for name in hints if name in known})  # type: ignore[operator]
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return _expect(value, kind, kind)


def _expect(value: Any, kind: Any, wanted: Any) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"expected {getattr(wanted, '__name__', wanted)}, found {type(value).__name__}")
    return value


def _only_some(kind: Any) -> Any:
    """X of `X | None`; our nouns use no other union."""
    return next(part for part in typing.get_args(kind) if part is not type(None))


def _item_kind(kind: Any) -> Any:
    return typing.get_args(kind)[0]


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
