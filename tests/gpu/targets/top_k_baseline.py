"""The largest of each row and where they are; numbers are distinct, so there is one answer."""

import torch

from hotkernel_contract import Target

LARGE = torch.cuda.is_available()
ROWS, COLUMNS = (1024, 8192) if LARGE else (32, 128)


def top_k(x, k):
    return torch.topk(x, k, -1)


TARGET = Target(
    name="top_k", function=top_k, constants={"k": 16}, dtype="fp32", inputs={"x": f"{ROWS}x{COLUMNS}:perm"})
