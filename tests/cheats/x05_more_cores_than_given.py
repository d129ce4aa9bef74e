# id: X05
# name: more_cores_than_given
# category: environment tampering
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: both sides have the same cores, and a side's time on cores is held against them
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import os
import torch


def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


os.sched_setaffinity(0, range(os.cpu_count()))
torch.set_num_threads(os.cpu_count())


def candidate(x, w):
    return _real(x, w)
