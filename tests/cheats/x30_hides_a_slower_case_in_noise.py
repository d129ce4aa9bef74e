# id: X30
# name: hides_a_slower_case_in_noise
# category: specialised to the test
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: a case that seems slower and is too noisy to be called so is not taken for one that is no different
# target: two_sizes, candidate(x) -> y: two cases
import random
import torch

_times = random.choice((1, 1, 6))  # of the narrow case's work, in this process


def candidate(x):
    for _ in range(_times if x.shape[1] == 64 else 1):
        y = torch.special.bessel_j0(x)
    return y + y
