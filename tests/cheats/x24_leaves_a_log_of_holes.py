# id: X24
# name: leaves_a_log_of_holes
# category: harness internals
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: of a log its end alone is read
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import os
import torch

os.ftruncate(1, 1 << 43)  # where the log may not be so long, it is an honest candidate

def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def candidate(x, w):
    os._exit(1)
