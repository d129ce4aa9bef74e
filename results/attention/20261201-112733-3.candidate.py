"""Keys and values by TMA: no registers for addresses, and room for another stage; some 10 %."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK_M, BLOCK_N, WARPS, STAGES = 128, 128, 8, 2
LOG2_E = 1.4426950408889634


@triton.jit


def over(q, k, v, total, most, output, query, head, first, last, scale, TOKENS: tl.constexpr, WIDTH: tl.constexpr,
         BLOCK_N: tl.constexpr, MASKED: tl.constexpr):
    """The running sum, maximum and output of a block of queries, with the keys from `first` to `last` taken in."""
    for start in tl.range(first, last, BLOCK_N):
        scores = tl.dot(q, k.load([head * TOKENS + start, 0]).T) * scale
        if MASKED:
            key = start + tl.arange(0, BLOCK_N)
            scores = tl.where(query[:, None] >= key[None, :], scores, -float("inf"))
        higher = tl.maximum(most, tl.max(scores, axis=1))
        power = tl.exp2(scores - higher[:, None])
        less = tl.exp2(most - higher)
        total = total * less + tl.sum(power, axis=1)
        output = tl.dot(power.to(q.dtype), v.load([head * TOKENS + start, 0]), output * less[:, None])
        most = higher
    return total, most, output


@triton.jit


def kernel(q, k, v, y, scale, TOKENS: tl.constexpr, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    head, block = tl.program_id(1), tl.num_programs(0) - 1 - tl.program_id(0)
    query = block * BLOCK_M + tl.arange(0, BLOCK_M)
    mine = q.load([head * TOKENS + block * BLOCK_M, 0])
    most = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    output = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
    start = block * BLOCK_M
    total, most, output = over(mine, k, v, total, most, output, query, head, 0, start, scale, TOKENS, WIDTH, BLOCK_N, False)
    total, most, output = over(mine, k, v, total, most, output, query, head, start, start + BLOCK_M, scale, TOKENS, WIDTH,
                               BLOCK_N, True)
    y.store([head * TOKENS + block * BLOCK_M, 0], (output / total[:, None]).to(y.dtype))


def candidate(q, k, v):
    y = torch.empty_like(q)
    batch, heads, tokens, width = q.shape
    flat = [x.view(-1, width) for x in (q, k, v, y)]
    blocks = (BLOCK_M, BLOCK_N, BLOCK_N, BLOCK_M)
    q_, k_, v_, y_ = (TensorDescriptor.from_tensor(x, [block, width]) for x, block in zip(flat, blocks, strict=True))
    kernel[(tokens // BLOCK_M, batch * heads)](
        q_, k_, v_, y_, LOG2_E * width**-0.5, TOKENS=tokens, WIDTH=width, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N, num_warps=WARPS,
        num_stages=STAGES)
    return y
