# id: H21
# name: large_temporaries
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: allocates temporaries many times its output's size in every call, and frees them
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import torch


def candidate(x, w):
    stacked = x.double().unsqueeze(0).repeat(6, 1, 1)
    squares = stacked.pow(2)
    scale = torch.rsqrt(squares.mean(-1, keepdim=True) + 1e-6)
    return (stacked * scale * w.double())[3].to(x.dtype)
