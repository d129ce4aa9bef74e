"""Rotary embedding of queries and keys as Llama's model code writes it: eager operations over two halves."""

import torch


def turned(x, cos, sin):
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


def rotary(q, k, cos, sin):
    """Queries and keys turned by the angles whose cosines and sines are given, token by token; each half has the same."""
    cos, sin = torch.cat([cos, cos], -1), torch.cat([sin, sin], -1)
    return turned(q, cos, sin), turned(k, cos, sin)
