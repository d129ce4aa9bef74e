"""Deliberately wrong: x * sigmoid(1.702 x), the cheaper approximation, is up to 0.02 off; the judge must call it incorrect."""

import torch
import triton
import triton.language as tl

BLOCK, WARPS = 4096, 8


@triton.jit


def kernel(x, y, elements, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < elements
    x_ = tl.load(x + at, mask=inside).to(tl.float32)
    found = x_ / (1.0 + tl.exp2(x_ * -2.4554669))
    tl.store(y + at, found.to(y.dtype.element_ty), mask=inside)


def candidate(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(y.numel(), BLOCK),)](x, y, y.numel(), BLOCK=BLOCK, num_warps=WARPS)
    return y
