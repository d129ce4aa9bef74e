"""An honest rewrite of the target cross_entropy."""

import torch


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, at):
        total = torch.logsumexp(x, -1, keepdim=True)
        ctx.save_for_backward(x, at, total)
        return (total - x.gather(1, at[:, None]))[:, 0]

    @staticmethod
    def backward(ctx, gradient):
        x, at, total = ctx.saved_tensors
        p = torch.exp(x - total)
        p.scatter_add_(1, at[:, None], -torch.ones_like(p[:, :1]))
        return p.mul_(gradient[:, None]), None


def cross_entropy_candidate(x, at):
    return Fused.apply(x, at)
