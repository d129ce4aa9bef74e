# A candidate of the target layernorm that is fast and wrong: its epsilon is a tenth of the target's. On ordinary rows that
# changes nothing that could be seen; rows of small values, which every batch of the judge holds, tell. Verdict: incorrect.
"""The fused kernel with another epsilon."""

import torch

EPSILON = 1e-6


def layernorm_candidate(x, w, b):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b, EPSILON)


if __name__ == "__main__":
    from layernorm_baseline import TARGET

    TARGET.main(layernorm_candidate, impl="wrong")
