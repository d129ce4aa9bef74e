"""Tanh.approx is one instruction in place of an exponential and a division; pays only if arithmetic is not hidden."""

import torch
import triton
import triton.language as tl

BLOCK, WARPS = 4096, 8


@triton.jit


def kernel(x, y, elements, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < elements
    x_ = tl.load(x + at, mask=inside, eviction_policy="evict_first").to(tl.float32)
    inner = x_ * (0.7978845608 + 0.0356774081 * x_ * x_)
    tanh = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [inner], tl.float32, is_pure=True, pack=1)
    found = 0.5 * x_ * (1.0 + tanh)
    tl.store(y + at, found.to(y.dtype.element_ty), mask=inside)


def candidate(x):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(y.numel(), BLOCK),)](x, y, y.numel(), BLOCK=BLOCK, num_warps=WARPS)
    return y
