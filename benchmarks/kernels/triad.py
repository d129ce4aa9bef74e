"""a * 3 + b of 4096x8192 bf16: two reads and a write."""

import torch

from hotkernel_contract import Target


def triad(a, b):
    return torch.add(b, a, alpha=3)


TARGET = Target(name="triad", function=triad, inputs={"a": "4096x8192", "b": "4096x8192"}, dtype="bf16", rotate=("a", "b"))
