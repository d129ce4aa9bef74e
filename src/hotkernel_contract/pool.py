"""The secret inputs of a batch, with their expected values; drawn anew from the system's entropy, seen by the oracle alone."""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

import torch

from hotkernel_contract.compare import Expected
from hotkernel_contract.inputs import draw, nearly_copy
from hotkernel_contract.rounds import change
from hotkernel_contract.target import Target, wide_for

# One entry in so many almost repeats the one before. A memo by a part of an input meets one soon, and is wrong; a side that
# computes anew only what differs gains less by them than the half percent that a gain must have (docs/integrity.md).
NEAR_COPY_ONE_IN = 256


@dataclass(frozen=True)
class Recipe:
    """What a drawing is made of, so that it can be made again."""

    size: int
    kind: str
    seed: int
    near: Tuple[int, ...]  # entries that almost repeat the one before

    @classmethod
    def fresh(cls, size: int, kind: str) -> Recipe:
        """From the system's entropy."""
        return cls(size, kind, new_seed(), tuple(at for at in range(1, size) if secrets.randbelow(NEAR_COPY_ONE_IN) == 0))


class Pool:
    """`size` entries of call inputs, private copies; the shared inputs are one for all entries of a drawing."""

    def __init__(self, target: Target, device: str, dtypes: Sequence[torch.dtype]) -> None:
        self.target, self.device = target, device
        self.dtypes = tuple(dtypes)  # of the outputs, in order
        self.rotated: List[Dict[str, torch.Tensor]] = []
        self.shared: Dict[str, torch.Tensor] = {}
        self.static: Dict[str, torch.Tensor] = {}  # drawn once: a side may have prepared something from it
        self.expected: List[List[Expected]] = []  # of each entry, one an output
        self._wide_shared: Dict[str, torch.Tensor] = {}
        self.recipes: List[Recipe] = []  # of all drawings so far

    def draw(self, size: int, kind: str = "", again: Optional[int] = None) -> int:
        """Replace every entry by new ones, or by those of the drawing `again`; answers the drawing's number.

        Nothing of the last one is kept but what is static. `kind`: another distribution than the timed one (rounds.KINDS).
        """
        number = len(self.recipes) if again is None else again
        if again is None:
            self.recipes.append(Recipe.fresh(size, kind))
        self._make(self.recipes[number])
        return number

    def _make(self, recipe: Recipe) -> None:
        """Entries are made together: launches cost more than rows."""
        generator = torch.Generator(device=self.device)
        generator.manual_seed(recipe.seed)
        target, size, kind = self.target, recipe.size, recipe.kind
        shared_names = tuple(name for name in target.raws if name not in target.fresh_raws)
        shared = draw(target, generator, self.device, shared_names)
        self.rotated, self.expected, self.shared, self._wide_shared = [], [], {}, {}
        with torch.no_grad():
            fresh = draw(target, generator, self.device, target.fresh_raws, copies=size)
            for at in recipe.near:
                for name, x in fresh.items():
                    near = nearly_copy(x[at - 1], generator, target.raws[name].draw)
                    if near is not None:
                        x[at].copy_(near)
            if kind:
                change(target, fresh, kind, generator)
            answers = [self._add(target.call_inputs({**{name: x[at] for name, x in fresh.items()}, **shared}))
                       for at in range(size)]
            found = Expected.of_all([answer for each in answers for answer in each], self.dtypes * size)
            self.expected = [found[at:at + len(self.dtypes)] for at in range(0, len(found), len(self.dtypes))]

    def _add(self, inputs: Dict[str, torch.Tensor]) -> List[torch.Tensor]:
        """Keep one entry; its answers, one an output."""
        wide = wide_for(*self.dtypes)
        if not self.shared:
            self.static = self.static or {name: inputs[name] for name in self.target.static_tensors}
            self.shared = {name: self.static.get(name, x) for name, x in inputs.items() if name not in self.target.per_call}
            self._wide_shared = self.target.widened(self.shared, wide)  # once: weights may be large
        rotated = {name: x for name, x in inputs.items() if name in self.target.per_call}
        widened = {**self._wide_shared, **self.target.widened(rotated, wide)}
        self.rotated.append(rotated)
        return list(self.target.answers({name: widened[name] for name in self.target.tensors}, wide).values())

    def inputs(self, at: int) -> Dict[str, torch.Tensor]:
        """All inputs of one entry, in call order."""
        return {name: self.rotated[at].get(name, self.shared.get(name)) for name in self.target.tensors}


def decoy(target: Target, device: str) -> Dict[str, torch.Tensor]:
    """Inputs of one call that are nobody's secret: for the layout of a call, before any secret exists."""
    generator = torch.Generator(device=device)
    generator.manual_seed(new_seed())
    with torch.no_grad():
        return target.call_inputs(draw(target, generator, device, tuple(target.raws)))


def new_seed() -> int:
    """63 bits that nobody can guess."""
    return int.from_bytes(os.urandom(8), "little") >> 1
