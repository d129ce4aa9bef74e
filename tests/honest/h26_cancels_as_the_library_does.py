# id: H26
# name: cancels_as_the_library_does
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: a pool of threads made at the first call, half of the rows each, joined; as precise as the library is where it cancels
# target: gelu, candidate(x) -> y; x [256, 1024] fp32
from concurrent.futures import ThreadPoolExecutor
import torch

_pool = None


def _half(x, into):
    into.copy_(torch.nn.functional.gelu(x, approximate="tanh"))


def candidate(x):
    global _pool
    if _pool is None:
        _pool = ThreadPoolExecutor(2)
    y = torch.empty_like(x)
    for done in [_pool.submit(_half, *each) for each in zip(x.chunk(2), y.chunk(2))]:
        done.result()
    return y
