"""A copy that moves a few percent more than it must: `planted` rows beyond those that are asked for."""

import torch
import triton
import triton.language as tl

from hotkernel_contract import Target

ROWS, COLUMNS, MOST = 4096, 8192, 256


@triton.jit
def kernel(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    at = tl.arange(0, BLOCK)
    tl.store(y + row * columns + at, tl.load(x + row * columns + at))


def copy(x, planted):
    """The first ROWS rows of x; moves `planted` rows more into memory that nobody reads."""
    y = torch.empty(ROWS + planted, COLUMNS, device=x.device, dtype=x.dtype)
    kernel[(ROWS + planted,)](x, y, COLUMNS, BLOCK=COLUMNS, num_warps=8)
    return y[:ROWS]


def reference(x):
    return x[:ROWS].clone()


def baseline(x):
    return copy(x, PLANTED)


PLANTED = 82
TARGET = Target(name="copy_planted", function=baseline, inputs={"x": f"{ROWS + MOST}x{COLUMNS}"}, dtype="bf16",
                reference=reference)
