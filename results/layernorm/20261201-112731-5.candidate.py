"""16 warps instead of 8: half as many elements a thread between the two reductions; some 3 %."""

import torch
import triton
import triton.language as tl

EPSILON = 1e-5
WARPS = 16


@triton.jit


def kernel(x, w, b, y, epsilon, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * COLUMNS
    at = tl.arange(0, COLUMNS)
    value = tl.load(x + row + at, eviction_policy="evict_first").to(tl.float32)
    weight = tl.load(w + at, eviction_policy="evict_last").to(tl.float32)
    bias = tl.load(b + at, eviction_policy="evict_last").to(tl.float32)
    value -= tl.sum(value, axis=0) / COLUMNS
    scale = 1.0 / tl.sqrt(tl.sum(value * value, axis=0) / COLUMNS + epsilon)
    tl.store(y + row + at, (value * scale * weight + bias).to(y.dtype.element_ty))


def candidate(x, w, b):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, w, b, y, EPSILON, COLUMNS=x.shape[1], num_warps=WARPS)
    return y
