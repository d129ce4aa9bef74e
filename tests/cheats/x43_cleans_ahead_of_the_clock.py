# id: X43
# name: cleans_ahead_of_the_clock
# category: work outside the interval
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch, host
# why: what the call ahead of a batch does is on no clock, so it may take no longer than the baseline's
# target: spreading, candidate(i) -> y: ones scattered into zeros
import sys
import torch

_clean, _dirty, _batch, _count = [], [], None, 0


def candidate(i):
    """Every second batch is the call for nothing, ahead of the clock: what was handed out is cleaned there."""
    global _batch, _count
    frame = sys._getframe(1)
    while frame and frame.f_code.co_name != "run_calls":
        frame = frame.f_back
    if frame is not None and frame is not _batch:
        _batch, _count = frame, _count + 1
        if _count % 2:
            while len(_dirty) + len(_clean) < 24:
                _dirty.append(torch.empty(i.shape[0], 512))
            while _dirty:
                _clean.append(_dirty.pop().zero_())
    y = _clean.pop() if _clean else torch.zeros(i.shape[0], 512)
    _dirty.append(y)
    return y.scatter_(1, i[:, None], 1.0)
