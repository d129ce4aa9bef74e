"""A subtly wrong rewrite of the target top_k."""

import torch


def top_k_candidate(x, k):  # the last of them is one too small
    values, at = torch.topk(x, k + 1, -1)
    keep = [*range(k - 1), k]
    return values[:, keep], at[:, keep]
