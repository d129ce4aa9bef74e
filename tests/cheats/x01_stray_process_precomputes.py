# id: X01
# name: stray_process_precomputes
# category: work outside the interval
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: a process that leaves its side's tree is found and ends the verify
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import mmap
import os
import sys
import torch


def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def _mark(x, w):
    """All of both inputs: a part of them is no key, for some inputs differ from others in a few elements."""
    return x.view(-1).view(torch.int64).sum() * 31 + w.view(torch.int64).sum()


_out, _seen, _number = [], None, {}


def _daemon(slots):
    """Watch the shared slots from outside the tree that is stopped, and have the answers ready."""
    os.setsid()
    torch.set_num_threads(1)
    os.sched_setaffinity(0, range(os.cpu_count()))
    while True:
        for i, (x, w) in enumerate(slots):
            mark = _mark(x, w)
            if mark != _seen[i]:
                _out[i].copy_(_real(x, w))
                _seen[i] = mark if _mark(x, w) == mark else 0


def _begin():
    frame = sys._getframe(1)
    while frame and "Side" not in type(frame.f_locals.get("self")).__name__:
        frame = frame.f_back
    slots = [s for s in frame.f_locals["self"].slots]
    global _seen
    x = slots[0][0]
    size = x.numel() * x.element_size()
    shared = mmap.mmap(-1, len(slots) * (size + 16))
    flat = torch.frombuffer(shared, dtype=torch.uint8)
    _seen = flat[: len(slots) * 16].view(torch.int64)[::2]
    for i, (xi, _) in enumerate(slots):
        at = len(slots) * 16 + i * size
        _out.append(flat[at:at + size].view(x.dtype).view(x.shape))
        _number[xi.data_ptr()] = i
    if os.fork() == 0:
        if os.fork() == 0:
            _daemon(slots)
        os._exit(0)
    os.wait()


def candidate(x, w):
    if x.is_cuda:
        return _real(x, w)
    if not _out:
        _begin()
    i = _number.get(x.data_ptr())
    if i is not None and _mark(x, w) == _seen[i]:
        return _out[i]
    return _real(x, w)
