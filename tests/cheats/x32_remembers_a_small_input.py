# id: X32
# name: remembers_a_small_input
# category: caching or memoisation
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: an input that is small beside what streams is each call's own
# target: exponential, candidate(x, w) -> y: most of the work is w's
import torch

_kept = []


def candidate(x, w):
    if not _kept or not torch.equal(_kept[0], w):
        _kept[:] = [w.clone(), torch.linalg.matrix_exp(w).sum()]
    return x * _kept[1]
