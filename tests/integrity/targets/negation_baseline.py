"""A function that can be undone: a side could write over its inputs and put them back."""

import torch

from hotkernel_contract import Target


def negation(x):
    return torch.neg(x)


TARGET = Target(name="negation", function=negation, inputs={"x": "256x4096"}, dtype="fp32", device="cpu")
