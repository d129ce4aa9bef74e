"""Layer normalisation as the formula reads: a chain of PyTorch operations, each a pass over memory."""

import torch

EPSILON = 1e-5


def layernorm(x, w, b):
    """(x - mean) / sqrt(variance + epsilon) * w + b over the last dimension."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + EPSILON) * w + b
