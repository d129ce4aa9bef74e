"""512 programs with three stages of asynchronous copies: no tail of programs that start and end; some 2 %."""

import torch
import triton
import triton.language as tl

BLOCK, WARPS, PROGRAMS, STAGES = 2048, 8, 512, 3


@triton.jit


def kernel(gate, up, y, elements, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for part in tl.range(tl.program_id(0), tl.cdiv(elements, BLOCK), tl.num_programs(0), num_stages=STAGES):
        at = part * BLOCK + tl.arange(0, BLOCK)
        inside = at < elements
        gate_ = tl.load(gate + at, mask=inside).to(tl.float32)
        up_ = tl.load(up + at, mask=inside).to(tl.float32)
        found = gate_ / (1.0 + tl.exp2(gate_ * -1.4426950408889634)) * up_
        tl.store(y + at, found.to(y.dtype.element_ty), mask=inside)


def candidate(gate, up):
    y = torch.empty_like(gate)
    programs = min(PROGRAMS, triton.cdiv(y.numel(), BLOCK))
    kernel[(programs,)](gate, up, y, y.numel(), BLOCK=BLOCK, STAGES=STAGES, num_warps=WARPS)
    return y
