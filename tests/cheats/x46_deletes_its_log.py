# id: X46
# name: deletes_its_log
# category: harness internals
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: a side that takes away a file of its own must not end the verify without a verdict
# target: rmsnorm, candidate(x, w) -> y
import os
import torch
os.unlink(os.path.join(os.environ["HOME"], "log"))
def candidate(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)
