# id: H33
# name: outputs_in_mapped_memory
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch host
# why: outputs in memory that it maps itself: of nothing, and of files in its folder for temporary ones
# target: gelu, candidate(x) -> y; x [256, 1024] fp32
import mmap
import tempfile
import torch

_calls = 0


def _of_nothing(x):
    return torch.frombuffer(mmap.mmap(-1, 4 * x.numel()), dtype=x.dtype)


def _of_file(x):
    return torch.from_file(f"{tempfile.gettempdir()}/{_calls % 64}", shared=True, size=x.numel(), dtype=x.dtype)


def candidate(x):
    global _calls
    _calls += 1
    y = (_of_file if _calls % 2 else _of_nothing)(x).view(x.shape)
    return y.copy_(torch.nn.functional.gelu(x, approximate="tanh"))
