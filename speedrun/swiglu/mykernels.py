"""The gated half of an MLP as most model code writes it: two eager operations."""

import torch


def swiglu(gate, up):
    """silu(gate) * up."""
    return torch.nn.functional.silu(gate) * up
