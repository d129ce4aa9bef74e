"""Deliberately wrong: sums are kept in bf16; the judge must call it incorrect."""

import torch
import triton
import triton.language as tl

ROWS, BLOCK, WARPS = 4, 512, 4


@triton.jit


def kernel(x, v, y, COLUMNS: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, BLOCK), dtype=tl.float32)
    for start in tl.static_range(0, COLUMNS, BLOCK):
        at = start + tl.arange(0, BLOCK)
        part = tl.load(x + row[:, None] * COLUMNS + at[None, :], eviction_policy="evict_first")
        vector = tl.load(v + at, eviction_policy="evict_last")
        total = (total + part.to(tl.float32) * vector.to(tl.float32)[None, :]).to(tl.bfloat16).to(tl.float32)
    tl.store(y + row, tl.sum(total, axis=1).to(y.dtype.element_ty))


def candidate(x, v):
    rows, columns = x.shape
    y = torch.empty(rows, dtype=x.dtype, device=x.device)
    kernel[(rows // ROWS,)](x, v, y, COLUMNS=columns, ROWS=ROWS, BLOCK=min(BLOCK, columns), num_warps=WARPS)
    return y
