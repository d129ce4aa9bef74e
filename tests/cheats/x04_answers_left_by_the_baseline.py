# id: X04
# name: answers_left_by_the_baseline
# category: reading the reference or answer
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: no input that one side has seen comes to another side; output slots are wiped before each batch
# target: rmsnorm_static, candidate(x, w) -> y, reuses_output: outputs are copied to slots that both sides map
import sys
import torch


def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def candidate(x, w):
    frame = sys._getframe(1)
    copies, at = frame.f_locals.get("copies"), frame.f_locals.get("at")
    if not copies or at is None or at < 6:  # where the short batch has written over the long one's
        return _real(x, w)
    left = copies[0][at]  # what the side before left in the slot that this output will be copied to
    first = _real(x[7:9], w)
    if torch.equal(left[7:9], first):
        return left
    return _real(x, w)
