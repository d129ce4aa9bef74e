"""256 programs walk 16 rows each and fetch ahead: both reductions are hidden behind the next row's loads; some 5 %."""

import torch
import triton
import triton.language as tl

PROGRAMS, WARPS, STAGES = 256, 8, 3
LOG2_E = 1.4426950408889634


@triton.jit


def kernel(x, y, rows, scale, COLUMNS: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, COLUMNS)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        start = row * COLUMNS
        value = tl.load(x + start + at).to(tl.float32)
        power = tl.exp2((value - tl.max(value, axis=0)) * scale)
        tl.store(y + start + at, (power * (1.0 / tl.sum(power, axis=0))).to(y.dtype.element_ty))


def candidate(x):
    y = torch.empty_like(x)
    rows, columns = x.shape
    kernel[(min(PROGRAMS, rows),)](x, y, rows, LOG2_E, COLUMNS=columns, STAGES=STAGES, num_warps=WARPS)
    return y
