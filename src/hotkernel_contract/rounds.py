"""Rounds of correctness on other inputs than the timed ones: which there are, and which the baseline itself can take."""

from __future__ import annotations

from typing import Callable, Dict, List

import torch

from hotkernel_contract.target import Target

EXTREME = 2.0**58  # a row of its squares still sums in fp32, where an honest kernel computes; fp16's own limit is far below
LARGE, TINY = 2.0**6, 2.0**-10  # of all elements: products and squares stay within fp16


def _repeated(x: torch.Tensor, _generator: torch.Generator) -> None:
    """Every row of an input is its first."""
    rows = x.view(x.shape[0], -1, x.shape[-1])
    rows.copy_(rows[:, :1].expand_as(rows).clone())


def _zeros(x: torch.Tensor, _generator: torch.Generator) -> None:
    x.zero_()


def _scaled(factor: float) -> Callable[[torch.Tensor, torch.Generator], None]:
    return lambda x, _generator: _put(x, (x if x.element_size() >= 4 else x.float()) * factor)


def _extreme(x: torch.Tensor, generator: torch.Generator) -> None:
    """A few elements of each input, at random places, are as large as dtype and sums allow."""
    flat = x.view(x.shape[0], -1)
    places = torch.randint(0, flat.shape[1], (flat.shape[0], max(1, flat.shape[1] // 1024)), generator=generator, device=x.device)
    flat[torch.arange(flat.shape[0], device=x.device)[:, None], places] = min(EXTREME, torch.finfo(x.dtype).max / 64)


def _put(x: torch.Tensor, values: torch.Tensor) -> None:
    limit = torch.finfo(x.dtype)
    x.copy_(values.clamp(limit.min, limit.max))


# What changes the floats that stream, all of them at once. `normal` targets said that extreme rows are not legal.
KINDS: Dict[str, Callable[[torch.Tensor, torch.Generator], None]] = {
    "large": _scaled(LARGE), "tiny": _scaled(TINY), "zeros": _zeros, "repeated rows": _repeated, "extreme": _extreme}
_OF_NORMAL = ("repeated rows",)


def kinds_for(target: Target) -> List[str]:
    """The kinds that this target's inputs may have; none where no float streams from the mixture."""
    if not any(is_changed(target, name) for name in target.fresh_raws):
        return []
    return list(KINDS) if target.mixture == "full" else list(_OF_NORMAL)


def is_changed(target: Target, name: str) -> bool:
    raw = target.raws[name]
    return raw.dtype.is_floating_point and raw.draw == "" and len(raw.shape) > 0 and name not in target.small


def change(target: Target, fresh: Dict[str, torch.Tensor], kind: str, generator: torch.Generator) -> None:
    """Make this drawing one of `kind`: each tensor has an entry a call along its first dimension."""
    for name, x in fresh.items():
        if is_changed(target, name):
            KINDS[kind](x, generator)
