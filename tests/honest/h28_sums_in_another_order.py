# id: H28
# name: sums_in_another_order
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: another honest order of a long fp32 sum
# target: dots, candidate(x, y) -> z; x, y [64, 4096] fp32
import torch


def candidate(x, y):
    return torch.einsum("ij,ij->i", x, y)
