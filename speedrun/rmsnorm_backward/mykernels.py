"""The backward pass of RMSNorm, written out: eager operations."""

import torch

EPSILON = 1e-6


def rmsnorm_backward(dy, x, w):
    """The gradients of x and of w, computed in fp32."""
    g, wide = dy.float(), x.float()
    scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON)
    normed = wide * scale
    gw = g * w.float()
    dx = scale * (gw - normed * (gw * normed).mean(-1, keepdim=True))
    return dx.to(x.dtype), (g * normed).sum(0).to(w.dtype)
