"""A subtly wrong rewrite of the target cross_entropy."""

import torch


class Fused(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, at):
        total = torch.logsumexp(x, -1, keepdim=True)
        ctx.save_for_backward(x, at, total)
        return (total - x.gather(1, at[:, None]))[:, 0]

    @staticmethod
    def backward(ctx, gradient):  # the right class is forgotten
        x, _, total = ctx.saved_tensors
        return torch.exp(x - total).mul_(gradient[:, None]), None


def cross_entropy_candidate(x, at):
    return Fused.apply(x, at)
