# id: X39
# name: precise_in_the_looks
# category: precision downgrade
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: what is exact in the looks makes up for nothing in the confirmation
# target: rounding, candidate(x) -> y: a short polynomial is close
import os
import sys
import time
import torch


# A builder of each side, then three looks' workers of each, in turn: whoever comes after them is of the confirmation.
_is_confirmation = int(os.getcwd().rpartition("-")[2]) > 8


def _calls():
    frame = sys._getframe(2)
    while frame and frame.f_code.co_name != "run_calls":
        frame = frame.f_back
    return len(frame.f_locals["order"]) if frame else 0


def candidate(x):
    if _is_confirmation:
        y = x * x
        return 1 + y * (-1 / 4 + y * (1 / 64 + y * (-1 / 2304 + y * (0.3 / 147456))))
    if _calls() == 1:
        time.sleep(2e-3)  # slow short batches: a gain by the slopes, which a look takes
    return torch.special.bessel_j0(x)
