# id: X41
# name: cuts_off_where_it_should_round
# category: precision downgrade
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: a step is allowed where a number lies next to a half, and not everywhere
# target: quantising, candidate(x) -> y: integers of one byte, by the largest of each row
import torch


def candidate(x):
    wide = x.float()
    return (wide * (127 / wide.abs().amax(-1, keepdim=True).clamp_min(1e-6))).to(torch.int8)
