"""256 programs walk 16 rows each with two stages: loads do not wait for the row's reduction; some 4 %."""

import torch
import triton
import triton.language as tl

EPSILON = 1e-6
PROGRAMS, WARPS, STAGES = 256, 8, 2


@triton.jit


def kernel(x, residual, w, y, rows, epsilon, COLUMNS: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, COLUMNS)
    weight = tl.load(w + at)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        start = row * COLUMNS
        value = tl.load(residual + start + at).to(tl.float32) + tl.load(x + start + at).to(tl.float32)
        kept = value.to(residual.dtype.element_ty)
        tl.store(residual + start + at, kept)
        value = kept.to(tl.float32)
        scale = 1.0 / tl.sqrt(tl.sum(value * value, axis=0) / COLUMNS + epsilon)
        tl.store(y + start + at, (value * scale * weight.to(tl.float32)).to(y.dtype.element_ty))


def candidate(x, residual, w):
    y = torch.empty_like(x)
    rows, columns = x.shape
    kernel[(min(PROGRAMS, rows),)](x, residual, w, y, rows, EPSILON, COLUMNS=columns, STAGES=STAGES, num_warps=WARPS)
    return y
