"""A function of many steps on few numbers: its calls cost what they cost however few they hold."""

import torch

from hotkernel_contract import Target


def stepping(x):
    for _ in range(40):
        x = x + 0.01 * torch.sin(x)
    return x


TARGET = Target(name="stepping", function=stepping, inputs={"x": "16x64"}, dtype="fp32", device="cpu", mixture="normal")
