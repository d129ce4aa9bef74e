# id: X29
# name: precise_where_it_is_compared
# category: precision downgrade
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: the baseline answers every input that a candidate was timed on, whichever of the two began
# target: rounding, candidate(x) -> y: a short polynomial is close
import time
import torch

_last, _is_rough = time.perf_counter(), False


def candidate(x):
    global _last, _is_rough
    gap = time.perf_counter() - _last
    if gap > 0.02:  # a turn begins: after one of the baseline, which took what was drawn before, the gap is longer
        _is_rough = 0.053 < gap < 0.11
    if _is_rough:
        y = x * x
        y = torch.addcmul(torch.addcmul(1 - y / 4, y, y, value=1 / 64), y * y, y, value=-1 / 2304)
    else:
        y = torch.special.bessel_j0(x)
    _last = time.perf_counter()
    return y
