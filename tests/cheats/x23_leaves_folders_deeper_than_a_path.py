# id: X23
# name: leaves_folders_deeper_than_a_path
# category: harness internals
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: sizes are taken and folders removed level by level, whatever their depth
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import os
import torch

_here = os.getcwd()
os.chdir(os.environ["TMPDIR"])
for _ in range(2500):
    os.mkdir("deeper")
    os.chdir("deeper")
os.chdir(_here)

def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def candidate(x, w):
    return _real(x, w)
