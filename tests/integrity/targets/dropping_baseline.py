"""A dropout whose mask is drawn from a seed in every call: it is the same each time, and depends on the shape alone."""

import torch

from hotkernel_contract import Target


def dropping(x):
    mask = torch.rand(x.shape, generator=torch.Generator(x.device).manual_seed(7), device=x.device) > 0.1
    return x * mask / 0.9


TARGET = Target(name="dropping", function=dropping, inputs={"x": "128x512"}, dtype="fp32", device="cpu")
