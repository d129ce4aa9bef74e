"""Deliberately wrong: the mean is of every fourth column, which saves arithmetic and no byte; the judge must call it
incorrect.
"""

import torch
import triton
import triton.language as tl

EPSILON = 1e-6
WARPS = 8


@triton.jit


def kernel(x, w, y, epsilon, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * COLUMNS
    at = tl.arange(0, COLUMNS)
    value = tl.load(x + row + at, eviction_policy="evict_first").to(tl.float32)
    weight = tl.load(w + at, eviction_policy="evict_last").to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(tl.where(at % 4 == 0, value * value, 0.0), axis=0) / (COLUMNS // 4) + epsilon)
    tl.store(y + row + at, (value * scale * weight).to(y.dtype.element_ty))


def candidate(x, w):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, w, y, EPSILON, COLUMNS=x.shape[1], num_warps=WARPS)
    return y
