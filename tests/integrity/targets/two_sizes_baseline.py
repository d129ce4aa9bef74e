"""A function with work that nobody needs, in two cases: a side may be faster in one of them alone."""

import torch

from hotkernel_contract import Target


def two_sizes(x):
    return torch.special.bessel_j0(x) + torch.special.bessel_j0(x)


TARGET = Target(name="two_sizes", function=two_sizes, inputs={"x": "64x512"}, dtype="fp32", device="cpu",
                cases={"wide": {}, "narrow": {"inputs": {"x": "256x64"}}})
