"""LayerNorm with weight and bias, by PyTorch's own kernel."""

import torch

EPSILON = 1e-5


def layernorm(x, w, b):
    """(x - mean) / std * w + b over the last dimension."""
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b, EPSILON)
