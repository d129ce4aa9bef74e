"""A matrix times a vector, by the library that PyTorch calls."""

import torch


def gemv(x, v):
    """x @ v."""
    return torch.mv(x, v)
