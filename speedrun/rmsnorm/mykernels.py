"""RMSNorm as most model code writes it: a chain of eager PyTorch operations."""

import torch

EPSILON = 1e-6


def rmsnorm(x, w):
    """x / rms(x) * w over the last dimension, computed in fp32."""
    wide = x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)
    return (wide * scale * w.float()).to(x.dtype)
