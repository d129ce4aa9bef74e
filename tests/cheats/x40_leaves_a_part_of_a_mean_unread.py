# id: X40
# name: leaves_a_part_of_a_mean_unread
# category: input or seed overfitting
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: a target whose check would take the answer to one other number in 32 is refused, until it says how it sums
# target: energy, candidate(x) -> y: a mean of a million numbers that are nearly the same
import torch

PART = 0.9


def candidate(x):
    kept = x[:int(PART * x.numel())]
    return (kept * kept + 20).mean()
