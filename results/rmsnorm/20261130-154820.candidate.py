# The candidate of the target rmsnorm: the only file that the loop edits. It started as the baseline in mykernels.py.
# `python rmsnorm_candidate.py` checks it, times it by its own clock and prints one JSON line; the verdict is
# `hotkernel verify rmsnorm_candidate.py rmsnorm_baseline.py`.
"""RMSNorm in one pass: a program holds a whole row in registers, so that every byte is read once and written once."""

import torch
import triton
import triton.language as tl

EPSILON = 1e-6
NUM_WARPS = 8  # 32 elements a thread at 8192 columns: four 16-byte loads in flight each, and no spill


@triton.jit
def rmsnorm_kernel(x, w, y, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    # a row is never read again, the weight by every program
    value = tl.load(x + row * columns + at, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
    weight = tl.load(w + at, mask=inside, other=0.0, eviction_policy="evict_last").to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(value * value, axis=0) / columns + epsilon)
    tl.store(y + row * columns + at, (value * scale * weight).to(y.dtype.element_ty), mask=inside)


def rmsnorm_candidate(x, w):
    """x / rms(x) * w over the last dimension of a contiguous x."""
    y = torch.empty_like(x)
    columns = x.shape[-1]
    block = triton.next_power_of_2(columns)
    rmsnorm_kernel[(x.numel() // columns,)](x, w, y, columns, EPSILON, BLOCK=block, num_warps=NUM_WARPS)
    return y


if __name__ == "__main__":
    from rmsnorm_baseline import TARGET

    TARGET.main(rmsnorm_candidate, impl="candidate")
