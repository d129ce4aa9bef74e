"""Causal attention by each backend of torch's scaled_dot_product_attention, and written out."""

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS_AT_ONCE, QUERIES_AT_ONCE = 8, 512  # of the written-out form: their scores are 64 MiB at 4096 keys in fp32


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
    """The same, written out, in the precision that the inputs come in; no score of a later block is computed."""
    tokens, width = q.shape[-2:]
    shape, (q, k, v) = q.shape, (x.reshape(-1, tokens, width) for x in (q, k, v))
    y = torch.empty_like(q)
    for head in range(0, q.shape[0], HEADS_AT_ONCE):
        some = slice(head, head + HEADS_AT_ONCE)
        for start in range(0, tokens, QUERIES_AT_ONCE):
            rows, end = slice(start, start + QUERIES_AT_ONCE), min(start + QUERIES_AT_ONCE, tokens)
            later = torch.ones(end - start, end, dtype=torch.bool, device=q.device).triu(start + 1)
            scores = (q[some, rows] @ k[some, :end].transpose(-1, -2)).mul_(width**-0.5).masked_fill_(later, -torch.inf)
            y[some, rows] = torch.softmax(scores, -1) @ v[some, :end]
    return y.view(shape)
