"""Deliberately wrong: the row's maximum is not taken off, which saves a reduction and overflows on large rows; the judge must
call it incorrect.
"""

import torch
import triton
import triton.language as tl

WARPS = 8
LOG2_E = 1.4426950408889634


@triton.jit


def kernel(x, y, scale, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * COLUMNS
    at = tl.arange(0, COLUMNS)
    value = tl.load(x + row + at, eviction_policy="evict_first").to(tl.float32)
    power = tl.exp2(value * scale)
    tl.store(y + row + at, (power * (1.0 / tl.sum(power, axis=0))).to(y.dtype.element_ty))


def candidate(x):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, y, LOG2_E, COLUMNS=x.shape[1], num_warps=WARPS)
    return y
