# The candidate of the target layernorm: the only file that the loop edits. It started as the baseline in mykernels.py.
# `python layernorm_candidate.py` checks it, times it by its own clock and prints one JSON line; the verdict is
# `hotkernel verify layernorm_candidate.py layernorm_baseline.py`.
"""Layer normalisation by PyTorch's fused kernel: one pass over memory instead of eight."""

import torch

EPSILON = 1e-5


def layernorm_candidate(x, w, b):
    return torch.nn.functional.layer_norm(x, (x.shape[-1],), w, b, EPSILON)


if __name__ == "__main__":
    from layernorm_baseline import TARGET

    TARGET.main(layernorm_candidate, impl="candidate")
