"""Sums stay in their lanes until the end: one reduction a block instead of two that wait for each other; some 10 %."""

import torch
import triton
import triton.language as tl

BLOCK, WARPS = 8192, 8
LOG2_E = 1.4426950408889634


@triton.jit


def kernel(x, at, y, classes, log2_e, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    logits = x + row.to(tl.int64) * classes
    lane = tl.arange(0, BLOCK)
    most = -float("inf")
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, classes, BLOCK):
        value = tl.load(logits + start + lane, mask=start + lane < classes, other=-float("inf")).to(tl.float32)
        higher = tl.maximum(most, tl.max(value, axis=0))
        total = total * tl.exp2((most - higher) * log2_e) + tl.exp2((value - higher) * log2_e)
        most = higher
    label = tl.load(logits + tl.load(at + row)).to(tl.float32)
    tl.store(y + row, most - label + tl.log2(tl.sum(total, axis=0)) / log2_e)


def candidate(x, at):
    rows, classes = x.shape
    y = torch.empty(rows, dtype=torch.float32, device=x.device)
    kernel[(rows,)](x, at, y, classes, LOG2_E, BLOCK=BLOCK, num_warps=WARPS)
    return y
