"""The decoder's SwiGLU with its gate asked for once, and silu and product in one kernel on a card."""

import torch
from torch.nn import functional

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

BLOCK = 1024

if triton:
    @triton.jit
    def gated(gate, up, y, count, block: tl.constexpr):
        at = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
        inside = at < count
        g = tl.load(gate + at, mask=inside, other=0.0).to(tl.float32)
        u = tl.load(up + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + at, (g * tl.sigmoid(g) * u).to(y.dtype.element_ty), mask=inside)


def swiglu_candidate(x, weights):
    gate, up = functional.linear(x, weights["gate.weight"]), functional.linear(x, weights["up.weight"])
    if triton is None or not x.is_cuda:
        return functional.linear(functional.silu(gate) * up, weights["down.weight"])
    y = torch.empty_like(gate)
    gated[(triton.cdiv(gate.numel(), BLOCK),)](gate, up, y, gate.numel(), BLOCK)
    return functional.linear(y, weights["down.weight"])
