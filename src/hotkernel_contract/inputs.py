"""Draws the inputs of a target: seeded tensors from one mixture that hides no shortcut; keeps nothing."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Tuple

import torch

from hotkernel_contract.call import COTANGENT, DIFFERENTIABLE, WEIGHT, Call
from hotkernel_contract.spec import ORDER, SLICE_GAP, Input, TargetError
from hotkernel_contract.target import Target

# How often a row is something else than normal. All of them are in every batch, and they are what is timed: a shortcut
# that is right on normal rows alone is wrong somewhere in each batch.
_SCALED, _SHIFTED, _HEAVY = 0.15, 0.05, 0.05
_SPECIAL = 1 / 256  # of the rows of each special kind: constant, zero, tiny, alternating, one huge element
SCALE_EXPONENT = 8.0
HUGE, TINY, SHIFT = 1000.0, 1e-4, 4.0


def draw(target: Target, generator: torch.Generator, device: str, names: Tuple[str, ...],
         copies: int = 0) -> Dict[str, torch.Tensor]:
    """Fresh raw tensors for these inputs of the target; with `copies`, so many of each along a first dimension."""
    return {name: draw_one(target.raws[name], generator, device, target.mixture, name in target.rotate, copies)
            for name in names}


def draw_one(spec: Input, generator: torch.Generator, device: str, mixture: str = "full", streams: bool = True,
             copies: int = 0) -> torch.Tensor:
    """One tensor, or `copies` of its kind along a first dimension; one alone lies in memory as the target says."""
    shape = (copies, *spec.shape) if copies else spec.shape
    if spec.draw in ("file", "kept"):
        x = spec.value.to(device)
        return x.expand(shape).clone() if copies else x.clone()
    if spec.draw in _DRAWS:
        x = _DRAWS[spec.draw](spec, shape, generator, device).to(spec.dtype)
    elif spec.dtype is torch.bool:
        share = 0.5 if spec.value is None else spec.value
        x = torch.rand(shape, generator=generator, device=device) < share
    elif not spec.dtype.is_floating_point:
        x = torch.randint(0, spec.high, shape, generator=generator, device=device, dtype=spec.dtype)
    else:
        x = draw_floats(spec, shape, generator, device, mixture, streams)
    if spec.draw == "sorted":
        x = (x.float() if x.dtype.is_floating_point and x.element_size() == 1 else x).sort(-1).values.to(spec.dtype)
    return x if copies else relaid(x, spec.layout)


def draw_floats(spec: Input, shape: Tuple[int, ...], generator: torch.Generator, device: str, mixture: str,
                streams: bool) -> torch.Tensor:
    """Floats from the mixture; those of one byte from what they can hold."""
    one_byte = torch.empty(0, dtype=spec.dtype).element_size() == 1
    at = spec.dtype if spec.dtype in (torch.float32, torch.float64) or (device != "cpu" and not one_byte) else torch.float32
    x = torch.empty(shape, device=device, dtype=at)
    x.normal_(generator=generator)
    if spec.draw == "weight":
        mean, spread, is_positive = spec.value
        x = x.mul_(spread).add_(mean)
        return (x.abs_() if is_positive else x).to(spec.dtype)
    if mixture == "full" and not spec.draw:
        if streams and len(spec.shape) > 1:
            mix_rows(x.view(-1, x.shape[-1]), generator)
        else:
            plant_zeros(x.view(-1), generator)
    if one_byte:
        x.clamp_(torch.finfo(spec.dtype).min, torch.finfo(spec.dtype).max)
    return x.to(spec.dtype)


def relaid(x: torch.Tensor, layout: str) -> torch.Tensor:
    """The same numbers, transposed, sliced or otherwise ordered in memory."""
    if layout == "transposed":
        return x.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "sliced":
        wide = torch.zeros(*x.shape[:-1], x.shape[-1] + SLICE_GAP, dtype=x.dtype, device=x.device)
        wide[..., :x.shape[-1]] = x
        return wide[..., :x.shape[-1]]
    if layout.startswith(ORDER):
        order = [int(digit) for digit in layout[len(ORDER):]]
        return x.permute(order).contiguous().permute([order.index(at) for at in range(x.dim())])
    return x


def like(x: torch.Tensor) -> torch.Tensor:
    """A copy that lies in memory as `x` does, gaps included."""
    shared = any(stride == 0 and size > 1 for size, stride in zip(x.shape, x.stride()))
    return x.clone() if shared else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device).copy_(x)


def _permutation(spec: Input, shape: Tuple[int, ...], generator: torch.Generator, device: str) -> torch.Tensor:
    order = torch.rand(shape, generator=generator, device=device, dtype=torch.float64).argsort(-1)
    if not spec.dtype.is_floating_point:
        return order
    half = shape[-1] // 2
    scale = 2.0 ** -max(0, half.bit_length() - 2)  # a power of two: distinct numbers stay distinct
    return (order - half).double() * scale


def _one_hot(_spec: Input, shape: Tuple[int, ...], generator: torch.Generator, device: str) -> torch.Tensor:
    places = torch.randint(0, shape[-1], shape[:-1], generator=generator, device=device)
    return torch.nn.functional.one_hot(places, shape[-1])


def _offsets(spec: Input, shape: Tuple[int, ...], generator: torch.Generator, device: str) -> torch.Tensor:
    inner = torch.randint(0, spec.value + 1, shape, generator=generator, device=device).sort(-1).values
    inner[..., 0], inner[..., -1] = 0, spec.value
    return inner


def _lengths(spec: Input, shape: Tuple[int, ...], generator: torch.Generator, device: str) -> torch.Tensor:
    """At least 1 each: an empty sequence is `offsets`' to have."""
    spare = _offsets(Input(spec.name, spec.shape, spec.dtype, value=spec.value - shape[-1]), (*shape[:-1], shape[-1] + 1),
                     generator, device)
    return spare.diff(dim=-1) + 1


def _unit(_spec: Input, shape: Tuple[int, ...], generator: torch.Generator, device: str) -> torch.Tensor:
    return torch.rand(shape, generator=generator, device=device) * 0.98 + 0.01


def _positive(_spec: Input, shape: Tuple[int, ...], generator: torch.Generator, device: str) -> torch.Tensor:
    x = torch.empty(shape, device=device)
    return x.normal_(generator=generator).abs_().add_(0.01)


_DRAWS: Dict[str, Callable[..., torch.Tensor]] = {
    "perm": _permutation, "onehot": _one_hot, "offsets": _offsets, "lengths": _lengths, "unit": _unit, "positive": _positive}


def mix_rows(x: torch.Tensor, generator: torch.Generator) -> None:
    """Turn some rows of `x` [rows, columns] into scaled, shifted, heavy, constant, zero, tiny, alternating or spiked ones."""
    rows, columns = x.shape
    device = x.device
    kind = torch.rand(rows, 1, generator=generator, device=device)
    exponent = (torch.rand(rows, 1, generator=generator, device=device) * 2 - 1) * SCALE_EXPONENT
    scale = torch.where(kind < _SCALED, torch.exp2(exponent), torch.ones_like(exponent))
    shifted = (kind >= _SCALED) & (kind < _SCALED + _SHIFTED)
    shift = (shifted * SHIFT * torch.sign(exponent)).to(x.dtype)
    torch.addcmul(shift, x, scale.to(x.dtype), out=x)
    count = max(1, round(_SPECIAL * rows)) if rows >= 16 else 0
    heavy = max(1, int(_HEAVY * rows)) if rows >= 16 else 0
    order = torch.randperm(rows, generator=generator, device=device)
    picks = list(order[: heavy + 5 * count].split([heavy] + [count] * 5))
    if heavy:
        x[picks[0]] = x[picks[0]].pow(3).clamp_(-HUGE, HUGE)
    if not count:
        return
    # a power of two has an exact mean, so that even a variance that cancels is exactly zero in the baseline too
    x[picks[1]] = torch.exp2(torch.randint(-2, 3, (count, 1), generator=generator, device=device).float()).to(x.dtype)
    x[picks[2]] = 0.0
    x[picks[3]] *= TINY
    signs = 1.0 - 2.0 * (torch.arange(columns, device=device) % 2)
    x[picks[4]] = x[picks[4]].abs() * signs.to(x.dtype)
    where = torch.randint(0, columns, (count,), generator=generator, device=device)
    x[picks[5], where] = HUGE


def plant_zeros(x: torch.Tensor, generator: torch.Generator) -> None:
    """Zero about one element in a hundred of a weight; its signs are mixed already."""
    if x.numel() >= 32:
        x[torch.randint(0, x.numel(), (max(1, x.numel() // 128),), generator=generator, device=x.device)] = 0.0


def nearly_copy(x: torch.Tensor, generator: torch.Generator, draw: str = "") -> Optional[torch.Tensor]:
    """A copy of `x` that differs in a few elements at random places, so that a fingerprint of an input is no key to it.

    None where few elements cannot change by themselves.
    """
    y = x.clone()
    flat = y.view(-1)
    if draw in ("perm", "positive", "unit"):
        rows = y.view(-1, y.shape[-1])
        at, first, second = (int(torch.randint(0, limit, (), generator=generator, device=x.device))
                             for limit in (rows.shape[0], y.shape[-1], y.shape[-1]))
        row = rows[at]
        row[first], row[second] = row[second].clone(), row[first].clone()
        return y
    if draw in ("sorted", "onehot", "lengths", "offsets"):
        return None
    places = torch.randint(0, flat.numel(), (min(4, flat.numel()),), generator=generator, device=x.device)
    if x.dtype.is_floating_point:
        flat[places] = (flat[places].float() * -1.5 + 1.0).to(x.dtype)
    elif x.dtype is torch.bool:
        flat[places] = ~flat[places]
    else:
        values, highest = flat[places], flat.max()  # the next number, and 0 after the last: always another, always in range
        flat[places] = torch.where(values >= highest, torch.zeros_like(values), values + 1)
    return y


def find_gradients(target: Target, device: str) -> None:
    """Make the gradients of the function's outputs inputs of the target, from one call; raises TargetError."""
    raw = draw(target, torch.Generator(device=device), device, tuple(target.raws))
    inputs = target.call_inputs(raw)
    able = [name for name in target.tensors if inputs[name].dtype in DIFFERENTIABLE and not is_kept(target, name)]
    wanted = able if target.backward is True else [
        each for name in target.backward for each in able if each == name or (name == "weights" and each.startswith(WEIGHT))]
    if not wanted:
        raise TargetError("backward=%r names no input of floats; there are %s" % (target.backward, ", ".join(able) or "none"))
    call = Call(**{**vars(target.call), "gradients": tuple(wanted)})
    values = call.values({name: x.clone() for name, x in inputs.items()})
    with torch.enable_grad():
        arguments = call.arguments(values)
        outputs = call.outputs(target.function(*arguments.args, **arguments.kwargs), values)
        graded = {name: y for name, y in outputs.items() if y.requires_grad}
        if not graded:
            raise TargetError("nothing that the function returns has a gradient")
        found = torch.autograd.grad(list(graded.values()), arguments.wanted, list(map(torch.ones_like, graded.values())),
                                    allow_unused=True)
    lacking = [name for name, gradient in zip(wanted, found) if gradient is None]
    if lacking:
        raise TargetError("no gradient reaches %s: name those that have one, backward=(…)" % ", ".join(lacking))
    names = [COTANGENT + name for name in graded]
    for name, y in zip(names, graded.values()):
        target.raws[name] = Input(name, tuple(y.shape), y.dtype, draw="normal")
    changes: Dict[str, Any] = {"rotate": (*target.rotate, *names), "call": Call(**{**vars(call), "cotangents": tuple(names)})}
    for part, value in changes.items():
        object.__setattr__(target, part, value)


def is_kept(target: Target, name: str) -> bool:
    """Whether this tensor of a call is the same whoever draws it."""
    return name in target.raws and target.raws[name].draw in ("kept", "file")
