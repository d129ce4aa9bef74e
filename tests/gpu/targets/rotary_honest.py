"""An honest rewrite of the target rotary."""

import torch


def rotary_candidate(q, k, angle):
    cos, sin = angle.cos().repeat(1, 2), torch.cat([-angle.sin(), angle.sin()], -1)
    return tuple((x.float() * cos + x.float().roll(x.shape[-1] // 2, -1) * sin).to(x.dtype) for x in (q, k))
