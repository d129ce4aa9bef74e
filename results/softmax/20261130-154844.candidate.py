# The candidate of the target softmax: the only file that the loop edits. It started as the baseline in mykernels.py.
# `python softmax_candidate.py` checks it, times it by its own clock and prints one JSON line; the verdict is
# `hotkernel verify softmax_candidate.py softmax_baseline.py`.
"""Softmax in one pass: a program holds a whole row in registers, so that every byte is read once and written once."""

import torch
import triton
import triton.language as tl

NUM_WARPS = 8  # 32 elements a thread at 8192 columns: four 16-byte loads in flight each, and no spill


@triton.jit
def softmax_kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    value = tl.load(x + row * columns + at, mask=inside, other=-float("inf"), eviction_policy="evict_first").to(tl.float32)
    power = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * columns + at, (power / tl.sum(power, axis=0)).to(y.dtype.element_ty), mask=inside)


def softmax_candidate(x):
    """The softmax of each row of a contiguous x."""
    y = torch.empty_like(x)
    columns = x.shape[-1]
    softmax_kernel[(x.numel() // columns,)](x, y, columns, BLOCK=triton.next_power_of_2(columns), num_warps=NUM_WARPS)
    return y


if __name__ == "__main__":
    from softmax_baseline import TARGET

    TARGET.main(softmax_candidate, impl="candidate")
