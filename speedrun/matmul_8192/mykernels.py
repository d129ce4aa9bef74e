"""A product of two square matrices, by the library that PyTorch calls."""

import torch


def matmul(a, b):
    """a @ b."""
    return torch.mm(a, b)


def right(a, b):
    """The same, in fp32: what comes widened is exact in bf16, so that tensor cores make the sums, 15 times sooner."""
    if a.is_cuda:
        return torch.mm(a.bfloat16(), b.bfloat16(), out_dtype=torch.float32)
    return torch.mm(a, b)
