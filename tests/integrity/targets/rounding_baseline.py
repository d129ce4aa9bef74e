"""A function that a short polynomial is close to on the inputs that it has: right by element, and plainly less precise."""

import torch

from hotkernel_contract import Target


def rounding(x):
    return torch.special.bessel_j0(x)


TARGET = Target(name="rounding", function=rounding, inputs={"x": "64x1024:unit"}, dtype="fp32", device="cpu")
