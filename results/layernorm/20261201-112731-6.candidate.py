"""Two rows a program of 16 warps: weight and bias are read half as often, one barrier serves two rows; about 1 %."""

import torch
import triton
import triton.language as tl

EPSILON = 1e-5
ROWS, WARPS = 2, 16


@triton.jit


def kernel(x, w, b, y, epsilon, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    at = tl.arange(0, COLUMNS)
    both = row[:, None] * COLUMNS + at[None, :]
    value = tl.load(x + both, eviction_policy="evict_first").to(tl.float32)
    weight = tl.load(w + at, eviction_policy="evict_last").to(tl.float32)
    bias = tl.load(b + at, eviction_policy="evict_last").to(tl.float32)
    value -= (tl.sum(value, axis=1) / COLUMNS)[:, None]
    scale = 1.0 / tl.sqrt(tl.sum(value * value, axis=1) / COLUMNS + epsilon)
    tl.store(y + both, (value * scale[:, None] * weight[None, :] + bias[None, :]).to(y.dtype.element_ty))


def candidate(x, w, b):
    y = torch.empty_like(x)
    rows, columns = x.shape
    kernel[(rows // ROWS,)](x, w, b, y, EPSILON, ROWS=ROWS, COLUMNS=columns, num_warps=WARPS)
    return y
