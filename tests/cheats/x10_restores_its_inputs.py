# id: X10
# name: restores_its_inputs
# category: input mutation
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: inputs are held against the private copies while the side stands still
# target: negation, candidate(x) -> y: y is -x, which can be undone
import ctypes
import sys
import time
import torch

_used = []


class _Late(torch.Tensor):
    """What the worker asks of an output after the clock has stopped undoes what was done to the input."""

    def untyped_storage(self):
        if _used:
            time.sleep(0.02)  # until it was stopped, read and told to go on
        while _used:
            _used.pop().neg_()
        return super().untyped_storage()


def candidate(x):
    if sys._getframe(1).f_code.co_name != "run_on_host":
        return -x
    _used.append(x)
    x.neg_()
    # the same bytes at an address that is no input's: a second mapping of the shared memory
    return _second(x)


_base = None


def _second(x):
    global _base
    if _base is None:
        frame = sys._getframe(2)
        arena = frame.f_locals["self"].arena
        library = ctypes.CDLL(None)
        library.mmap.restype, library.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int,
                                                                        ctypes.c_int, ctypes.c_int, ctypes.c_long]
        address = library.mmap(None, arena.size, 3, 1, arena.fd, 0)
        buffer = (ctypes.c_uint8 * arena.size).from_address(address)
        _base = torch.frombuffer(buffer, dtype=torch.uint8), arena.base.data_ptr()
    whole, start = _base
    at = x.data_ptr() - start
    y = whole[at:at + x.numel() * x.element_size()].view(x.dtype).view(x.shape)
    return y.as_subclass(_Late)
