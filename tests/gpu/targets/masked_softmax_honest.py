"""An honest rewrite of the target masked_softmax."""

import torch


def masked_softmax_candidate(x, mask):
    wide = x.float().masked_fill(mask, float("-inf"))
    e = torch.exp(wide - wide.amax(-1, keepdim=True))
    return (e / e.sum(-1, keepdim=True)).to(x.dtype)
