"""A function that changes its input in place and hands out a part of it, and a copy of another part that is the caller's own."""

import torch

from hotkernel_contract import Target


def handing(x):
    torch.neg(x, out=x)
    return x[1:], x[:-1].clone()


TARGET = Target(name="handing", function=handing, inputs={"x": "128x2048"}, dtype="fp32", device="cpu", writes=("x",))
