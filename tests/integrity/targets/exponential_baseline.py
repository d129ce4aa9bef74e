"""A function that spends most of its time on an input that is small beside what streams."""

import torch

from hotkernel_contract import Target


def exponential(x, w):
    return x * torch.linalg.matrix_exp(w).sum()


TARGET = Target(name="exponential", function=exponential, inputs={"x": "512x512", "w": "24x24"}, dtype="fp32", device="cpu",
                mixture="normal", rtol=1e-2)
