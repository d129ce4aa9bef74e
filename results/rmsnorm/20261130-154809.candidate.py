# A candidate of the target rmsnorm as new_target leaves it: a copy of the baseline. Verdict: inconclusive.
"""The baseline, untouched."""

import torch

EPSILON = 1e-6


def rmsnorm_candidate(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + EPSILON) * w.float()).to(x.dtype)


if __name__ == "__main__":
    from rmsnorm_baseline import TARGET

    TARGET.main(rmsnorm_candidate, impl="untouched")
