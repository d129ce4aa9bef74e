"""Queries and keys in one launch: no gap and no second tail, some 2 us of 45."""

import torch
import triton
import triton.language as tl

BLOCK, WARPS = 32, 4


@triton.jit


def turn(x, y, cos, sin, token, WIDTH: tl.constexpr):
    """Turn the rows of these tokens of one head."""
    at = tl.arange(0, WIDTH // 2)
    here = token[:, None] * WIDTH + at[None, :]
    first = tl.load(x + here).to(tl.float32)
    second = tl.load(x + here + WIDTH // 2).to(tl.float32)
    tl.store(y + here, (first * cos - second * sin).to(y.dtype.element_ty))
    tl.store(y + here + WIDTH // 2, (second * cos + first * sin).to(y.dtype.element_ty))


@triton.jit


def angles(cos, sin, token, WIDTH: tl.constexpr):
    at = token[:, None] * (WIDTH // 2) + tl.arange(0, WIDTH // 2)[None, :]
    cosine = tl.load(cos + at).to(tl.float32)
    return cosine, tl.load(sin + at).to(tl.float32)


@triton.jit


def kernel(q, k, q_turned, k_turned, cos, sin, tokens, QUERIES: tl.constexpr, WIDTH: tl.constexpr, BLOCK: tl.constexpr):
    token = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c, s = angles(cos, sin, token, WIDTH)
    head = tl.program_id(1).to(tl.int64)
    if head < QUERIES:
        turn(q + head * tokens * WIDTH, q_turned + head * tokens * WIDTH, c, s, token, WIDTH)
    else:
        here = (head - QUERIES) * tokens * WIDTH
        turn(k + here, k_turned + here, c, s, token, WIDTH)


def candidate(q, k, cos, sin):
    made = torch.empty_like(q), torch.empty_like(k)
    heads, tokens, width = q.shape[1], q.shape[2], q.shape[3]
    block = min(BLOCK, tokens)
    kernel[(tokens // block, heads + k.shape[1])](
        q, k, *made, cos, sin, tokens, QUERIES=heads, WIDTH=width, BLOCK=block, num_warps=WARPS)
    return made
