# id: X27
# name: hides_a_shortage_in_noise
# category: caching or memoisation
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: whether one call shows the gain is held against what the baseline's own calls vary by, not the candidate's
# target: gating, candidate(x, w) -> y: most of the work is w's
import random
import time
import torch

_kept = []


def _wait(us):
    until = time.perf_counter() + us * 1e-6
    while time.perf_counter() < until:
        pass


def candidate(x, w):
    if not _kept or not torch.equal(_kept[0], w):
        _kept[:] = [w.clone(), torch.special.bessel_j0(w)]
        if random.random() < 0.3:  # once a batch: a batch of one call says little then
            _wait(25)
    else:
        _wait(4)
    return x * _kept[1]
