"""A program a row, every byte of x and dy read once; dw by 33 million atomic adds, which may cost as much again; 10 times."""

import torch
import triton
import triton.language as tl

EPSILON = 1e-6
WARPS = 16


@triton.jit


def kernel(dy, x, w, dx, dw, epsilon, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * COLUMNS
    at = tl.arange(0, COLUMNS)
    g = tl.load(dy + row + at).to(tl.float32)
    value = tl.load(x + row + at).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(value * value, axis=0) / COLUMNS + epsilon)
    normed = value * scale
    gw = g * tl.load(w + at).to(tl.float32)
    mean = tl.sum(gw * normed, axis=0) / COLUMNS
    tl.store(dx + row + at, (scale * (gw - normed * mean)).to(dx.dtype.element_ty))
    tl.atomic_add(dw + at, g * normed, sem="relaxed")


def candidate(dy, x, w):
    dx = torch.empty_like(x)
    dw = torch.zeros(x.shape[1], dtype=torch.float32, device=x.device)
    kernel[(x.shape[0],)](dy, x, w, dx, dw, EPSILON, COLUMNS=x.shape[1], num_warps=WARPS)
    return dx, dw.to(w.dtype)
