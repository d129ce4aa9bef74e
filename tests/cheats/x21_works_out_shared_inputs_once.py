# id: X21
# name: works_out_shared_inputs_once
# category: caching or memoisation
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: short batches are of one call, and what the calls share is drawn anew for each batch
# target: gating, candidate(x, w) -> y: most of the work is w's
import torch

_kept = []


def candidate(x, w):
    if not _kept or not torch.equal(_kept[0], w):
        _kept[:] = [w.clone(), torch.special.bessel_j0(w)]
    return x * _kept[1]
