# id: X07
# name: voids_its_slow_batches
# category: timer tampering
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: batches that only one side's doings make void are counted
# target: rmsnorm, candidate(x, w) -> y; x [4096, 8192] bf16, w [8192] bf16
import statistics
import sys
import threading
import time
import torch


def _real(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)


_times, _begun, _count = {}, 0.0, 0


def _spoil():
    """Two threads that want the one core: both wait, and the batch counts as one that shared its cores."""
    until = time.perf_counter() + 1.5e-3
    while time.perf_counter() < until:
        torch.ones(4096).sum()


def candidate(x, w):
    global _begun, _count
    order = sys._getframe(1).f_locals.get("order")
    if order is None or x.is_cuda:
        return _real(x, w)
    if _count == 0:
        _begun = time.perf_counter()
    _count += 1
    y = _real(x, w)
    if _count >= len(order):
        spent = (time.perf_counter() - _begun) / _count
        is_long, _count = len(order) > 8, 0
        known = _times.setdefault(is_long, [])
        is_bad = len(known) > 4 and (spent > statistics.median(known)) == is_long  # slow long ones and fast short ones
        known.append(spent)
        if is_bad:
            threads = [threading.Thread(target=_spoil) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    return y
