"""An honest rewrite of the target top_k."""

import torch


def top_k_candidate(x, k):
    values, at = torch.sort(x, -1, descending=True)
    return values[:, :k].contiguous(), at[:, :k].contiguous()
