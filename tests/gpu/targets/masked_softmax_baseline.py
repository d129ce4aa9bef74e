"""A softmax over what a mask leaves."""

import torch

from hotkernel_contract import Target

LARGE = torch.cuda.is_available()
ROWS, COLUMNS = (4096, 4096) if LARGE else (64, 128)


def masked_softmax(x, mask):
    return torch.softmax(x.masked_fill(mask, float("-inf")), -1)


TARGET = Target(
    name="masked_softmax", function=masked_softmax, rotate=("x", "mask"), mixture="normal",
    inputs={"x": f"{ROWS}x{COLUMNS}", "mask": f"{ROWS}x{COLUMNS}:bool:share=0.3"})
