"""A subtly wrong rewrite of the target mlp."""

import torch.nn.functional as F


def mlp_candidate(x, weights):  # the tanh form of gelu, and no bias at the end
    y = F.layer_norm(x, x.shape[-1:], weights["norm.weight"], weights["norm.bias"])
    y = F.gelu(F.linear(y, weights["up.weight"], weights["up.bias"]), approximate="tanh")
    return x + F.linear(y, weights["down.weight"])
