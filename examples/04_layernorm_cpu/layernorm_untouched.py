# The candidate of the target layernorm as new_target makes it: a copy of the baseline, with nothing changed yet.
# Verdict: inconclusive, for there is no difference to be shown.
"""Layer normalisation as the formula reads: a chain of PyTorch operations, each a pass over memory."""

import torch

EPSILON = 1e-5


def layernorm(x, w, b):
    """(x - mean) / sqrt(variance + epsilon) * w + b over the last dimension."""
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.pow(2).mean(-1, keepdim=True)
    return centred / torch.sqrt(variance + EPSILON) * w + b


def layernorm_candidate(x, w, b):
    return layernorm(x, w, b)


if __name__ == "__main__":
    from layernorm_baseline import TARGET

    TARGET.main(layernorm_candidate, impl="untouched")
