"""A function that computes far longer than it reads: what an input repeats of another would be worth having."""

import torch

from hotkernel_contract import Target


def bessel(x):
    return torch.special.i0e(x) * torch.special.i1e(x.abs() + 1)


TARGET = Target(name="bessel", function=bessel, inputs={"x": "64x512"}, dtype="fp32", device="cpu")
