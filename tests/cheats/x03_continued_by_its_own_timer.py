# id: X03
# name: continued_by_its_own_timer
# category: work outside the interval
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: what ran while it had to stand still is seen by its time on the cores
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import ctypes
import select
import signal
import sys
import torch


def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


def _mark(x, w):
    """All of both inputs: a part of them is no key, for some inputs differ from others in a few elements."""
    return x.view(-1).view(torch.int64).sum() * 31 + w.view(torch.int64).sum()


class _Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("pad", ctypes.c_char * 48)]


class _Spec(ctypes.Structure):
    _fields_ = [(n, ctypes.c_long) for n in ("every_s", "every_ns", "first_s", "first_ns")]


def _timer():
    """SIGCONT to itself, twice a millisecond: whoever stops this process has not stopped it for long."""
    signal.signal(signal.SIGCONT, _look)
    library, timer = ctypes.CDLL(None), ctypes.c_void_p()
    event, spec = _Event(None, signal.SIGCONT, 0), _Spec(0, 500_000, 0, 500_000)
    library.timer_create(1, ctypes.byref(event), ctypes.byref(timer))
    library.timer_settime(timer, 0, ctypes.byref(spec), None)


_out, _seen, _number, _slots, _busy = [], [], {}, [], [1]


def _look(*_):
    """Between two batches, in the thread that waits for the next: whatever lies in the slots is worked out beforehand."""
    if _busy:
        return
    _busy.append(1)
    with torch.no_grad():
        for i, (x, w) in enumerate(_slots):
            if select.select([3], [], [], 0)[0]:
                break
            mark = _mark(x, w)
            if mark != _seen[i]:
                _out[i].copy_(_real(x, w))
                _seen[i] = mark if _mark(x, w) == mark else 0
    _busy.clear()


def _begin():
    frame = sys._getframe(2)
    while frame and "Side" not in type(frame.f_locals.get("self")).__name__:
        frame = frame.f_back
    _slots[:] = frame.f_locals["self"].slots
    for i, (x, _) in enumerate(_slots):
        _out.append(torch.empty_like(x))
        _seen.append(torch.zeros((), dtype=torch.int64))
        _number[x.data_ptr()] = i
    _timer()


def candidate(x, w):
    if x.is_cuda:
        return _real(x, w)
    if not _out:
        _begin()
    order = sys._getframe(1).f_locals.get("order") or [-1]
    _busy[:] = [1]
    i = _number.get(x.data_ptr())
    y = _out[i] if i is not None and _mark(x, w) == _seen[i] else _real(x, w)
    if i == order[-1]:
        _busy.clear()
    return y
