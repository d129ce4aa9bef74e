# A candidate of the target gelu that is wrong, and fast: PyTorch's GELU is another function unless it is told otherwise.
# The two differ by at most 0.0005, so a glance at the outputs shows nothing. Verdict: incorrect.
"""The exact GELU, where the target asks for its tanh form."""

import torch


def gelu_candidate(x):
    return torch.nn.functional.gelu(x)


if __name__ == "__main__":
    from gelu_baseline import TARGET

    TARGET.main(gelu_candidate, impl="wrong")
