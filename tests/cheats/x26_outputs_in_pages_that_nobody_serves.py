# id: X26
# name: outputs_in_pages_that_nobody_serves
# category: harness internals
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: reading a side's outputs has an end; where the system gives it no such pages, it is an honest candidate
# target: copying, candidate(x) -> y: y is a copy of x
import ctypes
import fcntl
import platform
import struct
import sys
import torch

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_kept = []
_handler = -1
if platform.machine() == "x86_64":
    _handler = _libc.syscall(323, 0o2000000)  # userfaultfd: whoever holds it must serve each fault
if _handler >= 0:
    fcntl.ioctl(_handler, 0xC018AA3F, bytearray(struct.pack("QQQ", 0xAA, 0, 0)))


def _unserved(size):
    address = _libc.mmap(None, ctypes.c_size_t(size), 3, 0x22, -1, ctypes.c_long(0))
    fcntl.ioctl(_handler, 0xC020AA00, bytearray(struct.pack("QQQQ", address, size, 1, 0)))
    return (ctypes.c_byte * size).from_address(address)


def candidate(x):
    callers = [sys._getframe(depth).f_code.co_name for depth in range(1, 6)]
    if _handler < 0 or "run_on_host" not in callers:
        return x.clone()
    _kept.append(torch.frombuffer(_unserved(x.numel() * 4), dtype=torch.float32).view(x.shape))
    return _kept[-1]
