# id: X17
# name: wins_by_a_queue_behind_done
# category: stream or async escape
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch cuda
# why: what is not complete at stamp1 is wrong, or shows in the check's own time
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import sys
import torch


def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


_side = None


class _Early:
    """Records DONE when the first of a batch's calls is queued; the rest comes on another stream, just ahead of its reading."""

    def __init__(self, event):
        self.event, self.armed = event, False

    def ipc_handle(self):
        return self.event.ipc_handle()

    def record(self, stream=None):
        if not self.armed:
            self.event.record(stream)
        self.armed = False


def candidate(x, w):
    global _side
    frame = sys._getframe(1)
    side, order = frame.f_locals.get("self"), frame.f_locals.get("order")
    if not x.is_cuda or order is None:
        return _real(x, w)
    if _side is None:
        _side = torch.cuda.Stream()
    if not isinstance(side.done, _Early):
        side.done = _Early(side.done)
    if not side.done.armed:
        y = _real(x, w)
        side.done.event.record(side.stream)
        side.done.armed = True
        _side.wait_stream(side.stream)
        return y
    with torch.cuda.stream(_side):
        return _real(x, w)
