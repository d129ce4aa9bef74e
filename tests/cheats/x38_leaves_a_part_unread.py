# id: X38
# name: leaves_a_part_unread
# category: input or seed overfitting
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: room for sums in another order is less than what a part left unread is off by
# target: squares, candidate(x) -> y: the mean of eight million squares
import torch

PART = 0.94


def candidate(x):
    kept = x[:int(PART * x.numel())]
    return (kept * kept).mean()
