"""128 programs add their dw once each by atomics: a million of them, and no second read; within 3 %, either way."""

import torch
import triton
import triton.language as tl

EPSILON = 1e-6
PROGRAMS, WARPS, STAGES = 128, 16, 3


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
    tl.atomic_add(parts + at, dw, sem="relaxed")


def candidate(dy, x, w):
    rows, columns = x.shape
    programs = min(PROGRAMS, rows)
    dx = torch.empty_like(x)
    dw = torch.zeros(columns, dtype=torch.float32, device=x.device)
    kernel[(programs,)](dy, x, w, dx, dw, rows, EPSILON, COLUMNS=columns, STAGES=STAGES, num_warps=WARPS)
    return dx, dw.to(w.dtype)
