# id: X06
# name: slow_short_batches
# category: timer tampering
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: a gain must show in the long batches too
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import sys
import time
import torch


def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


_waited = None


def candidate(x, w):
    global _waited
    order = sys._getframe(1).f_locals.get("order")
    if order and len(order) < 8 and _waited is not order:
        _waited = order
        until = time.perf_counter() + 2e-3
        while time.perf_counter() < until:
            pass
    return _real(x, w)
