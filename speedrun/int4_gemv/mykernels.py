"""A matrix of packed 4-bit weights with a scale for each group, times a vector: unpacked first, then multiplied."""

import torch

GROUP = 128


def derive(raw):
    """A byte holds columns 2j (low) and 2j + 1 (high), both from 0 to 15 and meant less 8."""
    rows, columns = raw["w"].shape
    groups = raw["w"].float().view(rows, columns // GROUP, GROUP)
    scale = groups.abs().amax(-1, keepdim=True).clamp(min=1e-6) / 7
    q = ((groups / scale).round().clamp(-8, 7) + 8).to(torch.uint8).view(rows, columns)
    return {"v": raw["v"], "packed": q[:, ::2] | (q[:, 1::2] << 4), "scale": scale[..., 0].to(raw["w"].dtype)}


def unpacked(packed, scale):
    rows = packed.shape[0]
    q = torch.stack([packed & 15, packed >> 4], -1).view(rows, -1, GROUP).to(scale.dtype) - 8
    return (q * scale[..., None]).view(rows, -1)


def int4_gemv(v, packed, scale):
    """unpacked(packed, scale) @ v."""
    return torch.mv(unpacked(packed, scale), v)


def right(v, packed, scale):
    """The same in fp32, where the unpacked weights are exact."""
    return torch.mv(unpacked(packed, scale.float()), v.float())
