"""A function that returns its answer twice: one of the two is a copy that is the caller's own."""

import torch

from hotkernel_contract import Target


def twice(x):
    y = torch.relu(x)
    return y, y.clone()


TARGET = Target(name="twice", function=twice, inputs={"x": "128x2048"}, dtype="fp32", device="cpu")
