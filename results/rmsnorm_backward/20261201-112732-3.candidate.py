"""Two stages: the next row's dy and x are on their way during the two reductions; some 20 %."""

import torch
import triton
import triton.language as tl

EPSILON = 1e-6
PROGRAMS, WARPS, STAGES = 128, 16, 2


@triton.jit


def kernel(dy, x, w, dx, parts, rows, epsilon, COLUMNS: tl.constexpr, STAGES: tl.constexpr):
    at = tl.arange(0, COLUMNS)
    weight = tl.load(w + at)
    dw = tl.zeros((COLUMNS,), dtype=tl.float32)
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        start = row * COLUMNS
        g = tl.load(dy + start + at).to(tl.float32)
        value = tl.load(x + start + at).to(tl.float32)
        scale = 1.0 / tl.sqrt(tl.sum(value * value, axis=0) / COLUMNS + epsilon)
        normed = value * scale
        gw = g * weight.to(tl.float32)
        mean = tl.sum(gw * normed, axis=0) / COLUMNS
        tl.store(dx + start + at, (scale * (gw - normed * mean)).to(dx.dtype.element_ty))
        dw += g * normed
    tl.store(parts + tl.program_id(0) * COLUMNS + at, dw)


@triton.jit


def join(parts, dw, programs, COLUMNS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in range(0, programs, ROWS):
        row = start + tl.arange(0, ROWS)
        total += tl.load(parts + row[:, None] * COLUMNS + at[None, :], mask=(row < programs)[:, None], other=0.0)
    tl.store(dw + at, tl.sum(total, axis=0).to(dw.dtype.element_ty))


def candidate(dy, x, w):
    rows, columns = x.shape
    programs = min(PROGRAMS, rows)
    dx, dw = torch.empty_like(x), torch.empty_like(w)
    parts = torch.empty(programs, columns, dtype=torch.float32, device=x.device)
    kernel[(programs,)](dy, x, w, dx, parts, rows, EPSILON, COLUMNS=columns, STAGES=STAGES, num_warps=WARPS)
    join[(columns // 32,)](parts, dw, programs, COLUMNS=columns, ROWS=64, BLOCK=32, num_warps=8)
    return dx, dw
