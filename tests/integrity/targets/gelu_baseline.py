"""A gelu in fp32: where 1 + tanh cancels, what is left is off by an ulp of what cancelled."""

import torch

from hotkernel_contract import Target


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


TARGET = Target(name="gelu", function=gelu, inputs={"x": "256x1024"}, dtype="fp32", device="cpu")
