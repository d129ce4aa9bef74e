"""Residual and RMSNorm between two layers as most model code writes them: eager operations, the residual in place."""

import torch

EPSILON = 1e-6


def residual_rmsnorm(x, residual, w):
    """residual += x, and its norm times w."""
    residual.add_(x)
    wide = residual.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)
    return (wide * scale * w.float()).to(x.dtype)


def right(x, residual, w):
    """What comes out is of the residual as it is kept, in bf16."""
    residual.add_(x)
    kept = residual.bfloat16().to(x.dtype)
    scale = torch.rsqrt(kept.pow(2).mean(-1, keepdim=True) + EPSILON)
    return kept * scale * w
