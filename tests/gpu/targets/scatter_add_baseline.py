"""Rows added where indices say, in place; nothing comes back."""

import torch

from hotkernel_contract import Target

LARGE = torch.cuda.is_available()
ROWS, SOURCES, WIDTH = (4096, 16384, 1024) if LARGE else (16, 64, 32)


def scatter_add(out, at, x):
    out.index_add_(0, at, x)


TARGET = Target(
    name="scatter_add", function=scatter_add, writes=("out",), rotate=("at", "x"), dtype="fp32",
    mixture="normal", reduction=SOURCES,
    inputs={"out": f"{ROWS}x{WIDTH}", "at": f"{SOURCES}:int64<{ROWS}", "x": f"{SOURCES}x{WIDTH}"})
