"""The cases' baseline on the CPU, at a shape that a test can afford: rmsnorm, x [256, 1024] bf16, w [1024] bf16."""

import torch

from hotkernel_contract import Target


def rmsnorm(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


TARGET = Target(name="rmsnorm", function=rmsnorm, inputs={"x": "256x1024", "w": "1024"}, dtype="bf16", device="cpu")
