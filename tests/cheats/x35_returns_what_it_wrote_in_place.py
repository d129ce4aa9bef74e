# id: X35
# name: returns_what_it_wrote_in_place
# category: output semantics
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: an output may lie in a written input where the baseline's does, and nowhere else
# target: keeping, candidate(x) -> y: x is changed in place, y is a copy of a part of it
import torch


def candidate(x):
    torch.neg(x, out=x)
    return x[1:]
