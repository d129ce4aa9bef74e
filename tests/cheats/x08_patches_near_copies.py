# id: X08
# name: patches_near_copies
# category: caching or memoisation
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: inputs that nearly repeat are too few to gain by
# target: bessel, candidate(x) -> y: elementwise, far longer to compute than to read
import torch


def _real(x):
    return torch.special.i0e(x) * torch.special.i1e(x.abs() + 1)


_known = {}


def candidate(x):
    """The output of an input that differs in a few elements, with only those computed again."""
    keys = [(i, x[i, :4].numpy().tobytes()) for i in (3, 31)] if not x.is_cuda else []
    for key in keys:
        if key in _known:
            px, py = _known[key]
            at = (x != px).view(-1).nonzero()[:, 0]
            if len(at) < 64:
                y = py.clone()
                y.view(-1)[at] = _real(x.view(-1)[at])
                return y
    y = _real(x)
    kept = x.clone(), y.clone()
    for key in keys:
        _known[key] = kept
    while len(_known) > 80:
        del _known[next(iter(_known))]
    return y
