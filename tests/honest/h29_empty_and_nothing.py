# id: H29
# name: empty_and_nothing
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: a named tuple with a list in it, an output of no element and one that is None
# target: pieces, candidate(x) -> positive, (largest, none, None)
from typing import Any, NamedTuple
import torch


class Pieces(NamedTuple):
    positive: torch.Tensor
    rest: Any


def candidate(x):
    return Pieces(x.clamp(min=0), [torch.amax(x, dim=1), x.new_empty((0, x.shape[1])), None])
