"""A function with one static output buffer that takes no longer than the copy of what it returns."""

import torch

from hotkernel_contract import Target

_buffer = {}


def clamping(x):
    return torch.clamp(x, min=0.0, max=6.0, out=_buffer.setdefault(x.device, torch.empty_like(x)))


def reference(x):
    return torch.clamp(x, min=0.0, max=6.0)


TARGET = Target(name="clamping", function=clamping, reference=reference, inputs={"x": "64x2048"}, dtype="fp32", device="cpu",
                reuses_output=True)
