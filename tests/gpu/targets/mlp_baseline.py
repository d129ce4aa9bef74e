"""A small module with weights that a side may prepare."""

import torch

from hotkernel_contract import Target

LARGE = torch.cuda.is_available()
ROWS, WIDTH = (1024, 1024) if LARGE else (16, 32)


class Mlp(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(WIDTH)
        self.up, self.down = torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


TARGET = Target(
    name="mlp", function=Mlp, static=("weights",), inputs={"x": f"{ROWS}x{WIDTH}"}, mixture="normal",
    flops=16 * ROWS * WIDTH * WIDTH)
