# id: X16
# name: names_more_memory_than_there_is
# category: forged result
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch cuda
# why: the size of an allocation is the driver's word, not the worker's
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import sys
import torch


def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


_frame = sys._getframe()
while _frame:
    _self = _frame.f_locals.get("self")
    if type(_self).__name__ == "Side" and getattr(_self, "driver", None) is not None:
        _range_of = _self.driver.range_of
        _self.driver.range_of = lambda pointer: (_range_of(pointer)[0], _range_of(pointer)[1] * 64)
        break
    _frame = _frame.f_back


def candidate(x, w):
    return _real(x, w)
