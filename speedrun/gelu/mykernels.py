"""GELU in its tanh form, by PyTorch's own kernel."""

import torch


def gelu(x):
    """0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))."""
    return torch.nn.functional.gelu(x, approximate="tanh")
