"""A subtly wrong rewrite of the target masked_softmax."""

import torch


def masked_softmax_candidate(x, mask):  # what is masked still takes part
    return torch.softmax(x.masked_fill(mask, -3.0), -1)
