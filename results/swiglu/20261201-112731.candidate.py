"""One kernel instead of two: three tensors move instead of five; about 1.6 times."""

import torch
import triton
import triton.language as tl

BLOCK, WARPS = 1024, 4


@triton.jit


def kernel(gate, up, y, elements, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < elements
    gate_ = tl.load(gate + at, mask=inside).to(tl.float32)
    up_ = tl.load(up + at, mask=inside).to(tl.float32)
    found = gate_ / (1.0 + tl.exp2(gate_ * -1.4426950408889634)) * up_
    tl.store(y + at, found.to(y.dtype.element_ty), mask=inside)


def candidate(gate, up):
    y = torch.empty_like(gate)
    kernel[(triton.cdiv(y.numel(), BLOCK),)](gate, up, y, y.numel(), BLOCK=BLOCK, num_warps=WARPS)
    return y
