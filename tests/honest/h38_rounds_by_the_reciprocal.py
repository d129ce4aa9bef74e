# id: H38
# name: rounds_by_the_reciprocal
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: a multiplication in place of a division is off by an ulp, and by a whole step next to a half
# target: quantising, candidate(x) -> y: integers of one byte, by the largest of each row
import torch


def candidate(x):
    wide = x.float()
    return torch.round(wide * (127 / wide.abs().amax(-1, keepdim=True).clamp_min(1e-6))).to(torch.int8)
