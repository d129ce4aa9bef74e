"""Ones scattered into zeros: what an output begins with does not depend on the input."""

import torch

from hotkernel_contract import Target


def spreading(i):
    return torch.zeros(i.shape[0], 512).scatter_(1, i[:, None], 1.0)


TARGET = Target(name="spreading", function=spreading, inputs={"i": "2048:int64<512"}, dtype="fp32", device="cpu")
