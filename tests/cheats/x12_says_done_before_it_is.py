# id: X12
# name: says_done_before_it_is
# category: work outside the interval
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: after the word "done" the process stands still, and what is not in an output then is wrong
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import sys
import torch


def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def _take_over(side):
    """A loop of its own in the place of the worker's: the word first, the work after it."""
    protocol = sys.modules["hotkernel_contract.protocol"]
    buffers = {}

    def run_on_host(self, order, nonce):
        outputs = [buffers.setdefault(k, torch.empty_like(self.slots[k][0])) for k in order]
        addresses = [y.data_ptr() for y in outputs]
        self.channel.sendall(protocol.pack_numbers(protocol.DONE, addresses, nonce))
        for y, k in zip(outputs, order):
            y.copy_(_real(*self.slots[k]))
        self.channel.sendall(self.describe_outputs(outputs, nonce) + protocol.pack(protocol.END, 0, nonce))
        self.release(nonce)

    side.run_on_host = run_on_host


_frame = sys._getframe()
while _frame:
    _self = _frame.f_locals.get("self")
    if type(_self).__name__ == "Side":
        _take_over(type(_self))
        break
    _frame = _frame.f_back


def candidate(x, w):
    return _real(x, w)
