# A candidate of the target rmsnorm that is fast and wrong: it takes the mean over every fourth column. On ordinary rows the
# answer looks right to a wide tolerance; its RMS error is many times the baseline's. Verdict: incorrect.
"""RMSNorm with a sampled mean."""

import torch

EPSILON = 1e-6


def rmsnorm_candidate(x, w):
    wide = x.float()
    return (wide * torch.rsqrt(wide[..., ::4].pow(2).mean(-1, keepdim=True) + EPSILON) * w.float()).to(x.dtype)


if __name__ == "__main__":
    from rmsnorm_baseline import TARGET

    TARGET.main(rmsnorm_candidate, impl="wrong")
