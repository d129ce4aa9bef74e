"""Draws the inputs of a target: seeded tensors from one mixture that hides no shortcut; keeps nothing."""

from __future__ import annotations

from typing import Dict, Tuple

import torch

from hotkernel_contract.target import Input, Target

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
    """One tensor, or `copies` of its kind: integers uniform in their range, booleans even, floats from the mixture."""
    shape = (copies, *spec.shape) if copies else spec.shape
    if spec.dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator, device=device).bool()
    if not spec.dtype.is_floating_point:
        return torch.randint(0, spec.high, shape, generator=generator, device=device, dtype=spec.dtype)
    at = spec.dtype if spec.dtype in (torch.float32, torch.float64) or device != "cpu" else torch.float32
    x = torch.empty(shape, device=device, dtype=at)
    x.normal_(generator=generator)
    if mixture == "full":
        if streams and len(spec.shape) > 1:
            mix_rows(x.view(-1, x.shape[-1]), generator)
        else:
            plant_zeros(x.view(-1), generator)
    return x.to(spec.dtype)


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


def nearly_copy(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """A copy of `x` that differs in a few elements at random places, so that a fingerprint of an input is no key to it."""
    y = x.clone()
    flat = y.view(-1)
    places = torch.randint(0, flat.numel(), (min(4, flat.numel()),), generator=generator, device=x.device)
    if x.dtype.is_floating_point:
        flat[places] = (flat[places].float() * -1.5 + 1.0).to(x.dtype)
    elif x.dtype is torch.bool:
        flat[places] = ~flat[places]
    else:
        values, highest = flat[places], flat.max()  # the next number, and 0 after the last: always another, always in range
        flat[places] = torch.where(values >= highest, torch.zeros_like(values), values + 1)
    return y
