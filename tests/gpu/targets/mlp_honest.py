"""An honest rewrite of the target mlp."""

import torch.nn.functional as F


def setup(weights):
    return {"weights": {name: w.t().contiguous().t() if w.dim() == 2 else w for name, w in weights.items()}}


def mlp_candidate(x, weights):
    y = F.layer_norm(x, x.shape[-1:], weights["norm.weight"], weights["norm.bias"])
    y = F.gelu(F.linear(y, weights["up.weight"], weights["up.bias"]))
    return x + F.linear(y, weights["down.weight"], weights["down.bias"])
