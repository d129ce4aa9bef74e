# id: X02
# name: stray_process_comes_and_goes
# category: work outside the interval
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: a process that left its side's tree is found even when it has ended before anybody looks
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import mmap
import os
import sys
import time
import torch


def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def _mark(x, w):
    """All of both inputs: a part of them is no key, for some inputs differ from others in a few elements."""
    return x.view(-1).view(torch.int64).sum() * 31 + w.view(torch.int64).sum()


_out, _seen, _number, _slots, _flag = [], None, {}, [], None


def _daemon(until):
    os.setsid()
    torch.set_num_threads(1)
    os.sched_setaffinity(0, range(os.cpu_count()))
    while time.monotonic() < until and not int(_flag[0]):
        for i, (x, w) in enumerate(_slots):
            mark = _mark(x, w)
            if mark != _seen[i]:
                _out[i].copy_(_real(x, w))
                _seen[i] = mark if _mark(x, w) == mark else 0
    os._exit(0)


def _side():
    frame = sys._getframe(1)
    while frame and "Side" not in type(frame.f_locals.get("self")).__name__:
        frame = frame.f_back
    return frame


def _begin(slots):
    global _seen, _flag
    x = slots[0][0]
    size = x.numel() * x.element_size()
    shared = mmap.mmap(-1, len(slots) * (size + 16) + 16)
    flat = torch.frombuffer(shared, dtype=torch.uint8)
    _seen = flat[: len(slots) * 16].view(torch.int64)[::2]
    _flag = flat[-16:].view(torch.int64)
    for i, (xi, _) in enumerate(slots):
        at = len(slots) * 16 + i * size
        _out.append(flat[at:at + size].view(x.dtype).view(x.shape))
        _number[xi.data_ptr()] = i
    _slots[:] = slots


def _spawn():
    """One that sees the next batch's inputs arrive, and is gone by the end of it."""
    _flag[0] = 0
    if os.fork() == 0:
        if os.fork() == 0:
            _daemon(time.monotonic() + 0.4)
        os._exit(0)
    os.wait()


_last = [0]


def candidate(x, w):
    if x.is_cuda:
        return _real(x, w)
    frame = _side()
    if not _out:
        _begin(frame.f_locals["self"].slots)
    order = frame.f_locals.get("order") or []
    i = _number.get(x.data_ptr())
    hit = i is not None and _mark(x, w) == _seen[i]
    y = _out[i] if hit else _real(x, w)
    if order and x.data_ptr() == _slots[order[-1]][0].data_ptr():  # the last call of the batch
        if len(order) < 8:
            _spawn()  # after a short batch comes the long one
        else:
            _flag[0] = 1
    return y
