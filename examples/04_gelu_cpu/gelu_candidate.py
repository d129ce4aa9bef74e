# The candidate of the target gelu: the only file that the loop edits. It started as the baseline in mykernels.py.
# `python gelu_candidate.py` checks it, times it by its own clock and prints one JSON line; the verdict is
# `hotkernel verify gelu_candidate.py gelu_baseline.py`.
"""GELU in its tanh form by PyTorch's fused kernel: one pass over memory instead of eight."""

import torch


def gelu_candidate(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


if __name__ == "__main__":
    from gelu_baseline import TARGET

    TARGET.main(gelu_candidate, impl="candidate")
