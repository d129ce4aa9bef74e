"""512 programs with three stages of asynchronous copies: no tail of programs that start and end; some 2 %."""

import torch
import triton
import triton.language as tl

BLOCK, WARPS, PROGRAMS, STAGES = 4096, 8, 512, 3


@triton.jit


def kernel(x, y, elements, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for part in tl.range(tl.program_id(0), tl.cdiv(elements, BLOCK), tl.num_programs(0), num_stages=STAGES):
        at = part * BLOCK + tl.arange(0, BLOCK)
        inside = at < elements
        x_ = tl.load(x + at, mask=inside).to(tl.float32)
        power = tl.exp2(x_ * (-2.302208198 - 0.1029432397 * x_ * x_))  # exp of -2 sqrt(2 / pi) (x + 0.044715 x^3)
        found = x_ / (1.0 + power)
        tl.store(y + at, found.to(y.dtype.element_ty), mask=inside)


def candidate(x):
    y = torch.empty_like(x)
    programs = min(PROGRAMS, triton.cdiv(y.numel(), BLOCK))
    kernel[(programs,)](x, y, y.numel(), BLOCK=BLOCK, STAGES=STAGES, num_warps=WARPS)
    return y
