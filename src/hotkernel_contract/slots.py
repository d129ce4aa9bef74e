"""Memory that two processes see: slots for inputs, in shared memory or in one device allocation; knows no target."""

from __future__ import annotations

import ctypes
import mmap
import os
from dataclasses import dataclass
from typing import Any, Dict, List, Sequence, Tuple

import torch

ALIGNMENT = 512  # what torch's own allocator gives
BLOCK_BYTES = 2 << 20  # the driver shares whole 2 MiB blocks, so that an allocation of its own ends at one


@dataclass(frozen=True)
class Field:
    """One tensor's place in an arena: `count` slots of `slot_bytes`, from `offset`."""

    name: str
    dtype: str
    shape: Tuple[int, ...]
    count: int
    slot_bytes: int
    offset: int
    strides: Tuple[int, ...]

    @classmethod
    def from_plain(cls, plain: Dict[str, Any]) -> Field:
        """As JSON said it."""
        return cls(**{**plain, "shape": tuple(plain["shape"]), "strides": tuple(plain["strides"])})


def lay_out(tensors: Dict[str, torch.Tensor], counts: Dict[str, int]) -> Tuple[List[Field], int]:
    """Fields for copies of these tensors that lie as they do, `counts` of each, and the bytes of all."""
    fields, offset = [], 0
    for name, tensor in tensors.items():
        strides = strides_of(tensor)
        slot_bytes = -(-max(1, _extent(tensor.shape, strides) * tensor.element_size()) // ALIGNMENT) * ALIGNMENT
        dtype = str(tensor.dtype).replace("torch.", "")
        fields.append(Field(name, dtype, tuple(tensor.shape), counts[name], slot_bytes, offset, strides))
        offset += slot_bytes * counts[name]
    return fields, max(offset, ALIGNMENT)


def views(base: torch.Tensor, field: Field) -> List[torch.Tensor]:
    """The slots of a field as tensors of its dtype, shape and strides, in the arena that `base` (uint8) is."""
    dtype = getattr(torch, field.dtype)
    starts = [field.offset + at * field.slot_bytes for at in range(field.count)]
    parts = [base[start:start + field.slot_bytes].view(dtype) for start in starts]
    return [part.as_strided(field.shape, field.strides, part.storage_offset()) for part in parts]


def strides_of(x: torch.Tensor) -> Tuple[int, ...]:
    """The strides that a copy of `x` keeps; elements that share memory get places of their own."""
    shared = any(stride == 0 and size > 1 for size, stride in zip(x.shape, x.stride()))
    return torch.empty(x.shape, device="meta").stride() if shared else tuple(x.stride())


class HostArena:
    """Shared memory by file descriptor."""

    def __init__(self, size: int, fd: int = -1) -> None:
        self.size = size
        self.fd = self._create(size) if fd < 0 else fd
        self.map = mmap.mmap(self.fd, size)
        self.base = torch.frombuffer(self.map, dtype=torch.uint8)

    def close(self) -> None:
        """Give the memory back once nobody looks at it any more."""
        os.close(self.fd)

    @staticmethod
    def _create(size: int) -> int:
        if hasattr(os, "memfd_create"):
            import fcntl

            fd = os.memfd_create("hotkernel", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(fd, size)
            # whoever has it may write in it, but a side that cut it off would end all who look there
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        else:
            import tempfile

            fd, path = tempfile.mkstemp()
            os.unlink(path)
            os.ftruncate(fd, size)
        return fd


class Driver:
    """The few calls of the CUDA driver that torch has no door to; raises RuntimeError with the driver's own name for it."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        code = getattr(self.library, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(code, ctypes.byref(text))
            raise RuntimeError("%s: %s" % (name, (text.value or b"error %d" % code).decode()))

    def allocate(self, size: int) -> int:
        pointer = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(-(-size // BLOCK_BYTES) * BLOCK_BYTES))
        return pointer.value

    def free(self, pointer: int) -> None:
        self.call("cuMemFree_v2", ctypes.c_uint64(pointer))

    def export(self, pointer: int) -> bytes:
        """The inter-process handle of the allocation that `pointer` lies in."""
        handle = ctypes.create_string_buffer(64)
        self.call("cuIpcGetMemHandle", handle, ctypes.c_uint64(pointer))
        return handle.raw

    def offer(self, pointer: int) -> bytes:
        """The same, or zeros for what CUDA gives to no other process: memory of a pool (cudaMallocAsync) or mapped in pieces."""
        try:
            return self.export(pointer)
        except RuntimeError:
            return bytes(64)

    def open(self, handle: bytes) -> int:
        """The address here of another process's allocation."""

        class Handle(ctypes.Structure):
            _fields_ = [("reserved", ctypes.c_char * 64)]

        pointer = ctypes.c_uint64()
        value = Handle.from_buffer_copy(handle)
        self.library.cuIpcOpenMemHandle_v2.argtypes = [ctypes.POINTER(ctypes.c_uint64), Handle, ctypes.c_uint]
        self.call("cuIpcOpenMemHandle_v2", ctypes.byref(pointer), value, ctypes.c_uint(1))
        return pointer.value

    def close(self, pointer: int) -> None:
        self.call("cuIpcCloseMemHandle", ctypes.c_uint64(pointer))

    def range_of(self, pointer: int) -> Tuple[int, int]:
        """Start and size of the allocation that `pointer` lies in."""
        start, size = ctypes.c_uint64(), ctypes.c_size_t()
        self.call("cuMemGetAddressRange_v2", ctypes.byref(start), ctypes.byref(size), ctypes.c_uint64(pointer))
        return start.value, size.value


def device_bytes(pointer: int, size: int) -> torch.Tensor:
    """`size` bytes of device memory at `pointer` as a uint8 tensor; the memory stays its owner's."""

    class Memory:
        __cuda_array_interface__ = {"shape": (size,), "typestr": "|u1", "data": (pointer, False), "version": 3,
                                    "strides": None, "stream": 1}

    return torch.as_tensor(Memory(), device="cuda")


class DeviceArena:
    """One device allocation, made here or opened from another process by its handle."""

    def __init__(self, size: int, driver: Driver, handle: bytes = b"") -> None:
        self.size, self.driver = size, driver
        self.pointer = driver.open(handle) if handle else driver.allocate(size)
        self.handle = handle or driver.export(self.pointer)
        self.base = device_bytes(self.pointer, size)

    def close(self) -> None:
        """Give memory that was allocated here back."""
        self.driver.free(self.pointer)


class Twins:
    """A side's slots on the card, where its memory cannot be shared: copied there for each call from the host's, and back."""

    def __init__(self, outside: Dict[str, List[torch.Tensor]], static: Sequence[str], writes: Sequence[str]) -> None:
        self.outside, self.writes = outside, tuple(writes)
        self.here = {name: [_on_card(x) for x in column] for name, column in outside.items()}
        self.streamed = [name for name, column in outside.items() if len(column) > 1]
        self.shared = [name for name in outside if name not in self.streamed and name not in static]

    def bring_shared(self) -> None:
        """The inputs that all calls of a batch share."""
        for name in self.shared:
            self.here[name][0].copy_(self.outside[name][0])

    def bring(self, slot: int) -> None:
        """One call's own inputs."""
        for name in self.streamed:
            self.here[name][slot].copy_(self.outside[name][slot])

    def take_back(self, slot: int) -> None:
        """What the call wrote in place; waits for the card."""
        for name in self.writes:
            self.outside[name][slot].copy_(self.here[name][slot])
        torch.cuda.synchronize()


def _on_card(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda").copy_(x)


def read_process(pid: int, address: int, into: torch.Tensor) -> None:
    """Copy another process's memory at `address` over the contiguous CPU tensor `into`; raises OSError."""

    class Vector(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    size, done = into.numel() * into.element_size(), 0
    library = ctypes.CDLL(None, use_errno=True)
    while done < size:
        here, there = Vector(into.data_ptr() + done, size - done), Vector(address + done, size - done)
        got = library.process_vm_readv(pid, ctypes.byref(here), ctypes.c_ulong(1), ctypes.byref(there), ctypes.c_ulong(1),
                                       ctypes.c_ulong(0))
        if got <= 0:
            code = ctypes.get_errno()
            raise OSError(code, "reading %d bytes at %#x of process %d: %s" % (size, address, pid, os.strerror(code)))
        done += got


def extent_of(tensor: torch.Tensor) -> int:
    """How many elements lie from a tensor's first to its last in memory, gaps included."""
    return _extent(tensor.shape, tensor.stride())


def _extent(shape: Sequence[int], strides: Sequence[int]) -> int:
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides)) if 0 not in shape else 0


def overlap(ranges: Sequence[Tuple[int, int, int]]) -> bool:
    """Whether any two of the ranges (segment, start, size) share a byte."""
    ordered = sorted(ranges)
    return any(a[0] == b[0] and a[1] + a[2] > b[1] for a, b in zip(ordered, ordered[1:]))

def bits(x: torch.Tensor) -> torch.Tensor:
    """What a tensor is made of, in numbers that are equal where the bits are."""
    flat = x.reshape(-1).view(torch.uint8)
    return flat.view(torch.int64) if flat.numel() % 8 == 0 and flat.data_ptr() % 8 == 0 else flat
