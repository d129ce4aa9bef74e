"""torch.mv of 8192x8192 bf16: cuBLAS's kernel, reads alone."""

import torch

from hotkernel_contract import Target


def gemv(x, v):
    return torch.mv(x, v)


TARGET = Target(name="gemv", function=gemv, inputs={"x": "8192x8192", "v": "8192"}, dtype="bf16", rotate=("x",))
