"""Says what one real call was given: its arguments as source text, tensors and constants by name; runs nothing."""

from __future__ import annotations

import inspect
import keyword
import math
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, FrozenSet, Iterator, List, Sequence, Tuple

import torch

NESTED_LIMIT = 16  # tensors in a list
ODD_LAYOUT = "?"


class Unfit(ValueError):
    """A call that no target can be made of; says why."""


@dataclass
class ObservedCall:
    """One call. `text` is its argument list with names in the place of tensors and constants; it tells forms apart."""

    text: str
    tensors: Dict[str, torch.Tensor]
    constants: Dict[str, Any]
    by_name: Tuple[str, ...] = ()  # tensors that were given by keyword
    places: List[Tuple[str, Any]] = field(default_factory=list)  # of each name: its index or keyword; empty where nested

    @property
    def key(self) -> str:
        """What makes calls alike: form, shapes, dtypes, strides, constants."""
        inputs = ["%s %s %s" % (list(x.shape), x.dtype, layout_of(x)) for x in self.tensors.values()]
        return "%s | %s | %r" % (self.text, ", ".join(inputs), self.constants)


@dataclass(frozen=True)
class Parameters:
    """What a function says of its arguments: their names in order, defaults, and which may go by place."""

    names: Tuple[str, ...]
    defaults: Dict[str, Any] = field(default_factory=dict)
    by_place: FrozenSet[str] = frozenset()

    @classmethod
    def of(cls, function: Callable[..., Any], skip: int = 0) -> Parameters:
        """Of a function without its first `skip`; of one that does not say, those of the operator that it is named after."""
        schema = getattr(function, "_schema", None)
        try:
            found = list(inspect.signature(function).parameters.values())[skip:] if schema is None else []
        except (TypeError, ValueError):
            packet = getattr(torch.ops.aten, getattr(function, "__name__", "").strip("_"), None)
            schemas = [getattr(packet, each)._schema for each in (packet.overloads() if packet else [])]
            schema = max(schemas, key=lambda each: len(each.arguments), default=None)
            found = []
        if schema is not None:
            return cls(tuple(each.name for each in schema.arguments))
        return cls(tuple(each.name for each in found),
                   {each.name: each.default for each in found if each.default is not each.empty},
                   frozenset(each.name for each in found if each.kind is each.POSITIONAL_OR_KEYWORD))


def observe(args: Sequence[Any], kwargs: Dict[str, Any], parameters: Parameters) -> ObservedCall:
    """What a call with these arguments is, told the same whoever spelled it: what is the default is left out. Raises Unfit."""
    call, words, by_name = ObservedCall("", {}, {}), [], []
    names = parameters.names
    given = [(names[at] if at < len(names) else "argument%d" % at, at, value) for at, value in enumerate(args)]
    order = {name: at for at, name in enumerate(names)}
    given += sorted(((name, name, value) for name, value in kwargs.items()), key=lambda each: order.get(each[0], len(order)))
    for name, place, value in given:
        if name in parameters.defaults and _is_the_default(value, parameters.defaults[name]):
            continue
        before = len(call.tensors)
        text = _worded(call, _legal(name), value)
        is_next = len(words) < len(names) and names[len(words)] == name and not any("=" in word for word in words)
        goes_by_place = (is_next and name in parameters.by_place) or (isinstance(place, int) and not parameters.by_place)
        words.append(text if goes_by_place or (isinstance(place, int) and name not in order) else "%s=%s" % (name, text))
        if text in call.tensors or text in call.constants:
            call.places.append((text, place))
        elif len(call.tensors) > before:
            call.places.append(("", place))  # nested
        if text in call.tensors and not goes_by_place:
            by_name.append(text)
    if not call.tensors:
        raise Unfit("it takes no tensor")
    call.text, call.by_name = ", ".join(words), tuple(by_name)
    return call


def _is_the_default(value: Any, default: Any) -> bool:
    if value is default:
        return True
    return is_plain(value) and is_plain(default) and type(value) is type(default) and bool(value == default)


def _worded(call: ObservedCall, name: str, value: Any) -> str:
    """The text that stands for `value`; a tensor or constant gets a name of its own."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided or value.numel() == 0:
            raise Unfit("%s is an empty or a sparse tensor" % name)
        name = "x" if not call.tensors else _unused(call, name)
        call.tensors[name] = value
        return name
    if isinstance(value, (list, tuple)) and any(isinstance(each, torch.Tensor) for each in value):
        if len(value) > NESTED_LIMIT:
            raise Unfit("%s is a list of %d" % (name, len(value)))
        inner = [_worded(call, "%s%d" % (name, at), each) for at, each in enumerate(value)]
        return "[%s]" % ", ".join(inner)
    if is_plain(value):
        if value is None:
            return "None"
        name = _unused(call, name)
        call.constants[name] = plain(value)
        return name
    if isinstance(value, (torch.device, torch.memory_format, torch.layout)):
        return "torch.device(%r)" % value.type if isinstance(value, torch.device) else str(value)
    if isinstance(value, float):
        return 'float("%s")' % value
    raise Unfit("%s is a %s" % (name, type(value).__name__))


def is_plain(value: Any) -> bool:
    """Whether a target can carry it as a constant."""
    if isinstance(value, (list, tuple)):
        return all(map(is_plain, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, (bool, int, str, torch.dtype))


def plain(value: Any) -> Any:
    """As JSON and a source text can say it: a dtype by its name."""
    if isinstance(value, (list, tuple)):
        return tuple(map(plain, value))
    return str(value) if isinstance(value, torch.dtype) else value


def _legal(name: str) -> str:
    return name + "_" if keyword.iskeyword(name) or name in ("x", "weights", "self", "torch") else name


def _unused(call: ObservedCall, name: str) -> str:
    while name in call.tensors or name in call.constants:
        name += "_"
    return name


def layout_of(x: torch.Tensor) -> str:
    """A target's word for how a tensor lies in memory: nothing where it is contiguous, `?` where there is no word for it."""
    if x.is_contiguous():
        return ""
    if x.transpose(-1, -2).is_contiguous():
        return "transposed"
    order = order_of(x)
    if x.dim() < 10 and x.permute(order).is_contiguous():
        return "order=" + "".join(map(str, order))
    rows = [x.stride(at) == x.stride(at + 1) * x.shape[at + 1] for at in range(x.dim() - 2)]
    return "sliced" if x.stride(-1) == 1 and x.stride(-2) > x.shape[-1] and all(rows) else ODD_LAYOUT


def order_of(x: torch.Tensor) -> List[int]:
    """The dimensions as they follow each other in memory, the outermost first."""
    return sorted(range(x.dim()), key=lambda at: (-x.stride(at), at))


def spelled(x: torch.Tensor) -> str:
    """How a target writes an input like this one, drawn."""
    dtype, word = str(x.dtype).replace("torch.", ""), ""
    if x.dtype is torch.bool:
        word = ":share=%.2f" % min(0.99, max(0.01, x.float().mean().item()))
    elif not x.dtype.is_floating_point and not x.dtype.is_complex:
        if x.min().item() < 0:
            raise Unfit("an input of integers holds negative ones")
        word = "<%d" % (x.max().item() + 1)
    layout = layout_of(x)
    if layout == ODD_LAYOUT and x.dim() < 10 and 0 not in x.stride() and order_of(x) != list(range(x.dim())):
        layout = "order=" + "".join(map(str, order_of(x)))  # without the gaps
    shape = "x".join(map(str, x.shape)) or "scalar"
    return shape + ":" + dtype + word + (":" + layout if layout not in ("", ODD_LAYOUT) else "")


def must_be_kept(x: torch.Tensor) -> bool:
    """Whether numbers drawn afresh would be no such input: a mask of minus infinities."""
    return x.dtype.is_floating_point and x.element_size() > 1 and not bool(torch.isfinite(x).all())


def memory_of(tensors: Dict[str, torch.Tensor]) -> Iterator[str]:
    """Of which tensors no target has the very layout, in words."""
    for name, x in tensors.items():
        if layout_of(x) in (ODD_LAYOUT, "sliced"):
            yield "%s has gaps in memory (strides %s for shape %s) that the target's has not, or of another size" % (
                name, list(x.stride()), list(x.shape))
