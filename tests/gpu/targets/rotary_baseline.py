"""Queries and keys turned by their positions' angles."""

import torch

from hotkernel_contract import Target

LARGE = torch.cuda.is_available()
BATCH, HEADS, TOKENS, WIDTH = (4, 32, 1024, 128) if LARGE else (2, 2, 16, 32)


def turn(x, cos, sin):
    a, b = x.float().chunk(2, -1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], -1).to(x.dtype)


def rotary(q, k, angle):
    cos, sin = angle.float().cos(), angle.float().sin()
    return turn(q, cos, sin), turn(k, cos, sin)


def right(q, k, angle):
    a = angle.to(q.dtype)
    return tuple(torch.cat([x.chunk(2, -1)[0] * a.cos() - x.chunk(2, -1)[1] * a.sin(),
                            x.chunk(2, -1)[1] * a.cos() + x.chunk(2, -1)[0] * a.sin()], -1) for x in (q, k))


TARGET = Target(
    name="rotary", function=rotary, reference=right, rotate=("q", "k"),
    inputs={"q": f"{BATCH}x{HEADS}x{TOKENS}x{WIDTH}", "k": f"{BATCH}x{HEADS}x{TOKENS}x{WIDTH}",
            "angle": f"{TOKENS}x{WIDTH // 2}:fp32:unit"})
