"""The same tiles by TMA: one thread asks for a block and no register computes addresses; some 10 %."""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK_M, BLOCK_N, BLOCK_K, GROUP = 128, 256, 64, 8
WARPS, STAGES = 8, 3


@triton.jit


def place(tile, rows, columns, GROUP: tl.constexpr):
    """Row and column of a tile: GROUP rows of tiles are walked column by column, so that what they share stays in the L2."""
    in_group = GROUP * columns
    first = tile // in_group * GROUP
    height = min(rows - first, GROUP)
    return first + tile % in_group % height, tile % in_group // height


@triton.jit


def kernel(a, b, c, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP: tl.constexpr):
    row, column = place(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), GROUP)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        total = tl.dot(a.load([row * BLOCK_M, start]), b.load([start, column * BLOCK_N]), total)
    c.store([row * BLOCK_M, column * BLOCK_N], total.to(c.dtype))


def candidate(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty(m, n, dtype=a.dtype, device=a.device)
    blocks = ((a, [BLOCK_M, BLOCK_K]), (b, [BLOCK_K, BLOCK_N]), (c, [BLOCK_M, BLOCK_N]))
    kernel[(triton.cdiv(m, BLOCK_M) * triton.cdiv(n, BLOCK_N),)](
        *(TensorDescriptor.from_tensor(x, block) for x, block in blocks), m, n, k, BLOCK_M=BLOCK_M, BLOCK_N=BLOCK_N,
        BLOCK_K=BLOCK_K, GROUP=GROUP, num_warps=WARPS, num_stages=STAGES)
    return c
