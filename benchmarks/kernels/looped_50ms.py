"""A loop over registers for every element of 4096x8192: one kernel of about 50 ms."""

import torch
import triton
import triton.language as tl

from hotkernel_contract import Target

STEPS = 48000


@triton.jit
def kernel(x, y, steps, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at).to(tl.float32)
    state = value * 0.0
    for _ in range(steps):  # forgets its rounding errors, however long it runs
        state = state * 0.99 + value * 0.01
    tl.store(y + at, (2 * state).to(y.dtype.element_ty))


def looped(x):
    y = torch.empty_like(x)
    kernel[(x.numel() // 1024,)](x, y, STEPS, BLOCK=1024, num_warps=4)
    return y


def reference(x):
    return 2 * x


TARGET = Target(name="looped_50ms", function=looped, inputs={"x": "4096x8192"}, dtype="bf16", reference=reference)
