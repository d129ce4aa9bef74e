# id: X15
# name: names_an_event_that_is_none
# category: forged result
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch cuda
# why: a handle of nothing is its process's fault, and a verdict
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import sys
import torch


def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


class _Never:
    """In the place of the event that says when this side is done."""

    def ipc_handle(self):
        return b"\x5a" * 64

    def record(self, stream=None):
        pass


_frame = sys._getframe()
while _frame:
    if type(_frame.f_locals.get("self")).__name__ == "Side":
        _frame.f_locals["self"].done = _Never()
        break
    _frame = _frame.f_back


def candidate(x, w):
    return _real(x, w)
