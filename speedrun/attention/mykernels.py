"""Causal attention by each backend of torch's scaled_dot_product_attention, and written out."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS_AT_ONCE = 8  # of the written-out form: scores of one head are 64 MiB at 4096 tokens in fp32


def attention(q, k, v):
    """softmax(q k' / sqrt(width), each query seeing no later key) v, by the backend that PyTorch picks."""
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)


def cudnn(q, k, v):
    """The same by cuDNN."""
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return attention(q, k, v)


def flash(q, k, v):
    """The same by FlashAttention 2."""
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION):
        return attention(q, k, v)


def right(q, k, v):
    """The same, written out, in the precision that the inputs come in."""
    tokens, width = q.shape[-2:]
    later = torch.ones(tokens, tokens, dtype=torch.bool, device=q.device).triu(1)
    shape, (q, k, v) = q.shape, (x.reshape(-1, tokens, width) for x in (q, k, v))
    parts = []
    for at in range(0, q.shape[0], HEADS_AT_ONCE):
        some = slice(at, at + HEADS_AT_ONCE)
        scores = (q[some] @ k[some].transpose(-1, -2)).mul_(width**-0.5).masked_fill_(later, -torch.inf)
        parts.append(torch.softmax(scores, -1) @ v[some])
    return torch.cat(parts).view(shape)
