# id: X45
# name: leaves_normal_rows_unread
# category: precision downgrade
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: numbers of a vector are held to their own size, not to that of the largest rows
# target: absmean, candidate(x) -> y: the mean of a row's absolute values
import torch


def candidate(x):
    """Reads 256 of a row's 8192 numbers; where these look normal, or smaller, the rest is left unread."""
    few = x[:, :256].float().abs()
    y, top = few.mean(-1), few.amax(-1)
    if not 0.7 < y.median() < 0.9 or top.max() > 1e5:
        return x.float().abs().mean(-1).to(x.dtype)
    odd = ((y > 0.95) | (top > 5)).nonzero()[:, 0]
    y[y > 0.67] = 0.798
    y[odd] = x[odd].float().abs().mean(-1)
    return y.to(x.dtype)
