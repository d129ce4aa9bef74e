# id: X25
# name: sleeps_until_there_is_no_time
# category: harness internals
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: a candidate that takes most of a verify's time, or is far slower, gets a verdict
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import time
import torch

def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def candidate(x, w):
    time.sleep(0.4)
    return _real(x, w)
