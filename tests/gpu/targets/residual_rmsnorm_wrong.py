"""A subtly wrong rewrite of the target residual_rmsnorm."""

import torch


def residual_rmsnorm_candidate(x, residual, w):  # the residual is left as it was
    wide = (residual + x).float()
    r = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * r * w.float()).to(x.dtype), r
