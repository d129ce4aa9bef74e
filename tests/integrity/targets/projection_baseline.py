"""A linear layer whose weight stays the same, so that a side may prepare it."""

import torch

from hotkernel_contract import Target


def projection(x, w):
    return torch.nn.functional.linear(x, w)


TARGET = Target(name="projection", function=projection, inputs={"x": "128x256", "w": "256x256"}, static=("w",), dtype="fp32",
                device="cpu", mixture="normal", reduction=256)
