"""A matrix of packed 4-bit weights with a scale for each group, times a vector."""

import torch

from hotkernel_contract import Target

LARGE = torch.cuda.is_available()
ROWS, COLUMNS, GROUP = (4096, 4096, 128) if LARGE else (32, 64, 16)


def derive(raw):
    groups = raw["w"].float().view(-1, GROUP)
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 7
    q = ((groups / scale).round().clamp(-8, 7) + 8).to(torch.uint8).view(ROWS, COLUMNS)
    return {"v": raw["v"], "packed": q[:, ::2] | (q[:, 1::2] << 4), "scale": scale.view(ROWS, -1).to(raw["w"].dtype)}


def unpack(packed, scale):
    q = torch.stack([packed & 15, packed >> 4], -1).view(ROWS, -1, GROUP).to(scale.dtype) - 8
    return (q * scale[..., None]).view(ROWS, COLUMNS)


def gemv(v, packed, scale):
    return torch.mv(unpack(packed, scale.float()), v.float()).to(v.dtype)


def right(v, packed, scale):
    return torch.mv(unpack(packed, scale.double()), v.double())


TARGET = Target(
    name="int4_gemv", function=gemv, reference=right, derive=derive, takes=("v", "packed", "scale"), rotate=("packed", "scale"),
    inputs={"v": f"{COLUMNS}", "w": f"{ROWS}x{COLUMNS}"}, flops=2 * ROWS * COLUMNS)
