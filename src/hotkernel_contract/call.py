"""How a target's function is called and what comes out of it: arguments by place and name, a module's weights, gradients."""

from __future__ import annotations

import inspect
from collections import abc
from dataclasses import dataclass, field
from typing import Any, Callable, Dict, Iterator, List, Sequence, Tuple

import torch

from hotkernel_contract.spec import Input, TargetError

WEIGHT, COTANGENT = "weights.", "grad_of."  # what these inputs' names begin with
WEIGHTS = "weights"  # the argument that holds a module's weights: a dict by their own names
LEAST_SPREAD = 0.1  # of a weight that its module makes constant: a norm's ones would hide that it is left out
DIFFERENTIABLE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)

Outputs = Dict[str, torch.Tensor]  # by name: `output`, `output[0]`, `output.key`, a written input's, `grad x`


class NotTensors(TargetError):
    """A function returned something that is no tensor, nor a tuple, list or dict of tensors."""


@dataclass
class Arguments:
    """One call's."""

    args: Tuple[Any, ...]
    kwargs: Dict[str, Any]
    wanted: List[torch.Tensor] = field(default_factory=list)  # those whose gradients are outputs
    cotangents: List[torch.Tensor] = field(default_factory=list)


@dataclass(frozen=True)
class Call:
    """Which tensor goes where; made of the baseline and the same for every side."""

    positional: Tuple[str, ...]
    keywords: Tuple[str, ...] = ()
    constants: Dict[str, Any] = field(default_factory=dict)
    writes: Tuple[str, ...] = ()
    gradients: Tuple[str, ...] = ()
    cotangents: Tuple[str, ...] = ()
    static: Tuple[str, ...] = ()
    has_weights: bool = False

    def to_plain(self) -> Dict[str, Any]:
        """As JSON can say it."""
        return {**vars(self), "constants": {name: _to_plain(value) for name, value in self.constants.items()}}

    @classmethod
    def from_plain(cls, plain: Dict[str, Any]) -> Call:
        constants = {name: _from_plain(value) for name, value in plain["constants"].items()}
        return cls(**{**{name: tuple(v) if isinstance(v, list) else v for name, v in plain.items()}, "constants": constants})

    def values(self, tensors: Dict[str, torch.Tensor]) -> Dict[str, Any]:
        """What these tensors are to a call: weights in one dict, those that want a gradient as leaves of a graph."""
        found: Dict[str, Any] = {
            name: x.detach().requires_grad_() if name in self.gradients else x for name, x in tensors.items()}
        if self.has_weights and any(name.startswith(WEIGHT) for name in tensors):
            found[WEIGHTS] = {name[len(WEIGHT):]: x for name, x in found.items() if name.startswith(WEIGHT)}
        return found

    def arguments(self, values: Dict[str, Any]) -> Arguments:
        """One call's arguments of `values`."""
        weights = (values.get(WEIGHTS, {}),) if self.has_weights else ()  # a module may have none
        return Arguments((*(values[name] for name in self.positional), *weights),
                         {**{n: values[n] for n in self.keywords}, **self.constants},
                         [values[name] for name in self.gradients], [values[name] for name in self.cotangents])

    def runner(self, function: Callable[..., Any]) -> Callable[[Arguments], Any]:
        """A call of `function`; with gradients, forward and backward."""
        if self.gradients:
            return lambda a: _with_gradients(function, a, self.gradients)
        return lambda a: function(*a.args, **a.kwargs)

    def outputs(self, returned: Any, values: Dict[str, Any]) -> Outputs:
        """The tensors that a call returned, by name, without the written inputs themselves; raises NotTensors."""
        if isinstance(returned, _Gradients):
            return {**dict(_leaves(returned.forward, "output")), **returned.gradients}
        found = dict(_leaves(returned, "output"))
        written = [values[name] for name in self.writes]
        found = {name: y for name, y in found.items() if not any(_is_the_same(y, x) for x in written)}
        if not found and not self.writes:
            raise NotTensors("it returns no tensor but %s; what a function writes in place is declared with writes=(…)"
                             % type(returned).__name__)
        return found

    def prepared(self, setup: Callable[..., Any], values: Dict[str, Any]) -> Dict[str, Any]:
        """`values` after a side's own `setup`, which may give other objects for what is declared static."""
        given = setup(**{name: values[name] for name in self.static})
        if not isinstance(given, dict) or set(given) - set(self.static):
            raise TargetError("setup must return a dict with any of the names %s, and no other" % ", ".join(self.static))
        return {**values, **given}


def plan_places(function: Callable[..., Any], names: Sequence[str], keywords: Sequence[str],
                constants: Dict[str, Any]) -> Tuple[Tuple[str, ...], Tuple[str, ...]]:
    """Which inputs go by place and which by name: by place up to a parameter that a constant takes, from there by name."""
    free = [name for name in names if name not in keywords]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a built-in does not say: all by place
        return tuple(free), tuple(keywords)
    places = 0
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            places = len(free)
        if parameter.kind not in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD) or parameter.name in constants \
                or parameter.name in keywords or places >= len(free):
            break
        places += 1
    known = {p.name for p in parameters}
    if any(name not in known for name in free[places:]):
        places = len(free)  # what has no such name can go by place alone; the call says what is wrong with it
    return tuple(free[:places]), (*free[places:], *keywords)


class ModuleCall:
    """A module, or one of its methods, called with its weights as an argument; knows nothing of a target."""

    def __init__(self, module: torch.nn.Module, method: str = "forward") -> None:
        self.module, self.method = module.eval(), method
        self.bound: Any = None
        self.__name__ = type(module).__name__.lower()
        self.places: Dict[str, List[Tuple[Dict[str, Any], str]]] = {}
        seen: Dict[int, str] = {}
        for prefix, owner in module.named_modules():
            for table in (owner._parameters, owner._buffers):
                for leaf, x in table.items():
                    if x is None or not x.dtype.is_floating_point:
                        continue
                    name = seen.setdefault(id(x), prefix + "." + leaf if prefix else leaf)  # tied weights are one
                    self.places.setdefault(name, []).append((table, leaf))
        self.__signature__ = inspect.signature(getattr(module, method))
        self.call = module if method == "forward" else getattr(module, method)

    @classmethod
    def of(cls, function: Any) -> Any:
        """A ModuleCall for a module or a method of one; anything else as it is."""
        if isinstance(function, torch.nn.Module):
            return cls(function)
        owner = getattr(function, "__self__", None)
        return cls(owner, function.__name__) if isinstance(owner, torch.nn.Module) else function

    def weights(self) -> Dict[str, torch.Tensor]:
        """Its floating-point parameters and buffers, by name."""
        return {name: places[0][0][places[0][1]].detach() for name, places in self.places.items()}

    def is_parameter(self, name: str) -> bool:
        table = self.places[name][0][0]
        return any(table is owner._parameters for owner in self.module.modules())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        *inputs, weights = args
        if weights is not self.bound:
            for name, places in self.places.items():
                for table, leaf in places:
                    table[leaf] = weights[name]
            self.bound = weights
        return self.call(*inputs, **kwargs)


@dataclass
class _Gradients:
    """What a call forward and backward gives."""

    forward: Any
    gradients: Outputs


def _with_gradients(function: Callable[..., Any], a: Arguments, names: Sequence[str]) -> _Gradients:
    with torch.enable_grad():
        forward = function(*a.args, **a.kwargs)
        outputs = [y for _, y in _leaves(forward, "output") if y.requires_grad]
        if len(outputs) != len(a.cotangents) or not outputs:
            raise NotTensors("%d of the tensors that it returns have gradients, of the baseline's %d"
                             % (len(outputs), len(a.cotangents)))
        found = torch.autograd.grad(outputs, a.wanted, a.cotangents, allow_unused=True)
    return _Gradients(_detached(forward), {"grad " + name: _laid_out_as(g, x)
                                            for name, g, x in zip(names, found, a.wanted) if g is not None})


def _laid_out_as(gradient: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A gradient as `x.grad` would have it: one of another layout, which autograd chooses and no author, is copied."""
    return gradient if gradient.stride() == x.stride() else torch.empty_like(x).copy_(gradient)


def _detached(nest: Any) -> Any:
    if isinstance(nest, torch.Tensor):
        return nest.detach()
    if isinstance(nest, abc.Mapping):
        return {key: _detached(value) for key, value in nest.items()}
    return [_detached(value) for value in nest] if isinstance(nest, (tuple, list)) else nest


def _leaves(nest: Any, name: str) -> Iterator[Tuple[str, torch.Tensor]]:
    """The tensors of a nest with their names; None holds none. A dict's order is nobody's promise: by key."""
    if isinstance(nest, torch.Tensor):
        yield name, nest
    elif isinstance(nest, (tuple, list)):
        for at, value in enumerate(nest):
            yield from _leaves(value, "%s[%d]" % (name, at))
    elif isinstance(nest, abc.Mapping):
        for key in sorted(nest, key=str):
            yield from _leaves(nest[key], "%s.%s" % (name, key))
    elif nest is not None:
        raise NotTensors("%s is %s, not a tensor: return tensors, or tuples, lists and dicts of them" % (
            name if name != "output" else "what it returns", type(nest).__name__))


def _is_the_same(y: torch.Tensor, x: torch.Tensor) -> bool:
    return y.data_ptr() == x.data_ptr() and y.shape == x.shape and y.stride() == x.stride() and y.dtype == x.dtype


def _to_plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return {type(value).__name__: [_to_plain(each) for each in value]}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).replace("torch.", "")}
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TargetError("a constant is a number, a text, a bool, None, a dtype or a tuple of these, not %r" % (value,))


def _from_plain(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "dtype":
        return getattr(torch, inner)
    return (tuple if kind == "tuple" else list)(_from_plain(each) for each in inner)


def weight_input(name: str, x: torch.Tensor, is_parameter: bool) -> Input:
    """A module's weight as an input: of the mean and spread that the module gave it; a buffer of its own numbers is kept."""
    wide = x.double()
    spread = float(wide.std()) if x.numel() > 1 else 0.0
    if not is_parameter and (spread or not torch.isfinite(wide).all()):
        return Input(name, tuple(x.shape), x.dtype, draw="kept", value=x)
    mean = float(wide.mean()) if x.numel() else 0.0
    return Input(name, tuple(x.shape), x.dtype, draw="weight",
                 value=(mean, spread or LEAST_SPREAD, not is_parameter and bool((wide > 0).all())))
