# id: X44
# name: answers_normal_rows_by_a_constant
# category: precision downgrade
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: numbers of a vector are held to their own size, not to that of the largest rows
# target: lse, candidate(x) -> y: the logarithm of a row's sum of exponentials
import math
import torch


def candidate(x):
    """Of rows that look normal by 16 of 1024 numbers and hold no large one, the answer is a constant."""
    n = x.shape[1]
    top = x.amax(-1).float()
    y = torch.full_like(top, math.log(n) + 0.5)
    few = x[:, :16].float()
    odd = (top > 5.5) | (few.square().mean(-1) < 0.3) | (few.mean(-1).abs() > 1.5) | (top < 2)
    at = odd.nonzero()[:, 0]
    y[at] = torch.logsumexp(x[at].float(), -1)
    return y.to(x.dtype)
