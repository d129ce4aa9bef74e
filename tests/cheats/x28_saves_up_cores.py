# id: X28
# name: saves_up_cores
# category: environment tampering
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: what a side had of the cores is held against each batch by itself; idleness in one pays for nothing in another
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import os
import time
import torch

os.sched_setaffinity(0, range(os.cpu_count()))
torch.set_num_threads(os.cpu_count())
_calls = 0


def candidate(x, w):
    global _calls
    _calls += 1
    if _calls == 3:  # in the first batch, which counts for nothing
        time.sleep(0.5)
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)
