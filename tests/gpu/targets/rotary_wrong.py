"""A subtly wrong rewrite of the target rotary."""

import torch


def rotary_candidate(q, k, angle):  # pairs of neighbours instead of halves
    cos, sin = angle.cos(), angle.sin()
    out = []
    for x in (q, k):
        a, b = x.float()[..., 0::2], x.float()[..., 1::2]
        out.append(torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2).to(x.dtype))
    return tuple(out)
