# id: H36
# name: table_made_once
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: what depends on the shape alone, and not on an input, is made at the first call: the same mask for every call
# target: dropping, candidate(x) -> y; x [128, 512] fp32
import torch

_masks = {}


def candidate(x):
    mask = _masks.get(x.shape)
    if mask is None:
        mask = _masks[x.shape] = torch.rand(x.shape, generator=torch.Generator(x.device).manual_seed(7), device=x.device) > 0.1
    return x * mask / 0.9
