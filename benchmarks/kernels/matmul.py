"""torch.mm of 2048 cubed bf16: cuBLAS's kernel, tensor cores."""

import torch

from hotkernel_contract import Target


def matmul(a, b):
    return torch.mm(a, b)


TARGET = Target(name="matmul", function=matmul, inputs={"a": "2048x2048", "b": "2048x2048"}, dtype="bf16", rotate=("a", "b"),
                flops=2 * 2048**3)
