# The candidate of the target gemv: the only file that the loop edits. It started as the baseline.
# `python gemv_candidate.py` checks it, times it by its own clock and prints one JSON line; the verdict is
# `hotkernel verify gemv_candidate.py gemv_baseline.py`.
"""Matrix times vector: a program streams a few rows, so that a piece of the vector serves them all; sums stay in fp32."""

import torch
import triton
import triton.language as tl

ROWS, COLUMNS, NUM_WARPS = 4, 2048, 8  # 16 KiB of the matrix in flight for each program, 2048 programs at 8192 rows


@triton.jit
def gemv_kernel(x, v, y, rows, columns, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    total = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for start in range(0, columns, COLUMNS):
        at = start + tl.arange(0, COLUMNS)
        inside = at < columns
        both = (row < rows)[:, None] & inside[None, :]
        part = tl.load(x + row[:, None] * columns + at[None, :], mask=both, other=0.0, eviction_policy="evict_first")
        vector = tl.load(v + at, mask=inside, other=0.0, eviction_policy="evict_last")
        total += part.to(tl.float32) * vector.to(tl.float32)[None, :]
    tl.store(y + row, tl.sum(total, axis=1).to(y.dtype.element_ty), mask=row < rows)


def gemv_candidate(x, v):
    """x @ v for a contiguous matrix x."""
    rows, columns = x.shape
    y = torch.empty(rows, dtype=x.dtype, device=x.device)
    gemv_kernel[(triton.cdiv(rows, ROWS),)](x, v, y, rows, columns, ROWS=ROWS, COLUMNS=COLUMNS, num_warps=NUM_WARPS)
    return y


if __name__ == "__main__":
    from gemv_baseline import TARGET

    TARGET.main(gemv_candidate, impl="candidate")
