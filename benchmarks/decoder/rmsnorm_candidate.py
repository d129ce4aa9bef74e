"""The decoder's RMSNorm in one pass over memory: a Triton kernel on a card, torch's own on the CPU."""

import torch

try:
    import triton
    import triton.language as tl
except ImportError:
    triton = None

EPS = 1e-6

if triton:
    @triton.jit
    def one_row(x, w, y, columns, eps, width: tl.constexpr):
        at = tl.arange(0, width)
        inside = at < columns
        start = tl.program_id(0).to(tl.int64) * columns
        row = tl.load(x + start + at, mask=inside, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(row * row, 0) / columns + eps)
        weight = tl.load(w + at, mask=inside, other=0.0).to(tl.float32)
        tl.store(y + start + at, (row * scale * weight).to(y.dtype.element_ty), mask=inside)


def rmsnorm_candidate(x, weights):
    weight = weights["weight"]
    if triton is None or not x.is_cuda:
        return torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, EPS)
    y = torch.empty_like(x)
    columns = x.shape[-1]
    width = triton.next_power_of_2(columns)
    one_row[(x.numel() // columns,)](x, weight, y, columns, EPS, width, num_warps=min(16, max(1, width // 512)))
    return y
