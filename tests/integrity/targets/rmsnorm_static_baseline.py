"""The same function with one static output buffer: outputs are copied to slots by trusted code."""

import torch

from hotkernel_contract import Target

_buffer = {}


def rmsnorm_static(x, w):
    xf = x.float()
    kept = _buffer.setdefault((x.shape, x.dtype, x.device), torch.empty_like(x))
    return kept.copy_(xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float())


def reference(x, w):
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


TARGET = Target(name="rmsnorm_static", function=rmsnorm_static, reference=reference, inputs={"x": "256x1024", "w": "1024"},
                dtype="bf16", device="cpu", reuses_output=True)
