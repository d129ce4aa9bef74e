"""The words between referee, oracle and workers; standard library only, both ends import it.

A worker can say nothing but frames of one fixed size, with no number in them that counts: what they hold is where an output
lies and of what kind it is. Lies gain nothing, since the oracle reads the memory itself. The referee, the zygote and the
oracle, which never run a candidate, talk in JSON messages.
"""

from __future__ import annotations

import array
import json
import socket
import struct
import time
from typing import Any, NamedTuple, Optional

PROTOCOL = 4  # the timing protocol, docs/timing.md

# The order is the code on the wire: append only.
DTYPES = (
    "float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2",
    "int64", "int32", "int16", "int8", "uint8", "bool",
)

FRAME_BYTES = 1024
_HEADER = struct.Struct("<4sHHQ")  # magic, kind, count, nonce
BODY_BYTES = FRAME_BYTES - _HEADER.size
_MAGIC = b"HK4\x00"

# referee -> worker
MAP, RUN, RELEASE, WITNESS = 1, 2, 3, 4  # WITNESS: time your own calls, for a figure that decides nothing
LINK = 5  # as RUN, and another call is queued behind it before anything is released
# worker -> referee
HELLO, READY, DONE, SEGMENT, OUTPUT, END, FAULT, SETUP = 16, 17, 18, 19, 20, 21, 22, 23  # SETUP's count: 1 begins, 0 ends
WITNESSED = 24  # the one frame with a measured number in it
FROM_WORKER = frozenset((HELLO, READY, DONE, SEGMENT, OUTPUT, END, FAULT, SETUP, WITNESSED))

# What a worker is confined by: bits of HELLO's count, said before a line of the candidate is loaded.
CONFINEMENT = ("no_new_privs", "no_core_dump", "landlock", "landlock_signals", "own_cores", "few_rights")

# codes of FAULT (the frame's count)
FAULT_IMPORT, FAULT_NO_CALLABLE, FAULT_CALL, FAULT_OUTPUT, FAULT_MEMORY = range(1, 6)

_OUTPUT = struct.Struct("<HHHHiIQQ8q8q")  # call, index, dtype, ndim, segment, tensor?, offset, storage bytes, shape, strides
OUTPUTS_IN_FRAME = BODY_BYTES // _OUTPUT.size
NUMBERS_IN_FRAME = BODY_BYTES // 8
HANDLE_BYTES = 64
_SEGMENT = struct.Struct("<Q64s")
_WITNESS = struct.Struct("<d")
MAX_DIMENSIONS = 8
ADDRESS = -1  # for a segment: `offset` is an address in the worker
ARENA = -2  # for a segment: the output lies in the inputs' memory, at `offset`


class Junk(Exception):
    """Bytes that are no frame of this protocol."""


class Frame(NamedTuple):
    """One frame: what it is, how many things it holds, which batch it answers, and the bytes."""

    kind: int
    number: int
    nonce: int
    body: bytes


class OutputAt(NamedTuple):
    """Where one output lies and of what kind it is, as its worker says."""

    call: int
    which: int
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    segment: int  # or ADDRESS, or ARENA
    offset: int
    storage_bytes: int


def pack(kind: int, count: int = 0, nonce: int = 0, body: bytes = b"") -> bytes:
    """One frame."""
    if len(body) > BODY_BYTES:
        raise ValueError("a body of %d bytes" % len(body))
    return _HEADER.pack(_MAGIC, kind, count, nonce) + body.ljust(BODY_BYTES, b"\0")


def unpack(data: bytes) -> Frame:
    """The frame that `data` is; raises Junk for anything else."""
    if len(data) != FRAME_BYTES or data[:len(_MAGIC)] != _MAGIC:
        raise Junk("%d bytes that are no frame: %r" % (len(data), data[:24]))
    _, kind, count, nonce = _HEADER.unpack_from(data)
    return Frame(kind, count, nonce, data[_HEADER.size:])


def pack_numbers(kind: int, numbers: list[int], nonce: int) -> bytes:
    """Whole numbers (slots, addresses) in as many frames as they need; the count is that of all."""
    frames = []
    for start in range(0, max(len(numbers), 1), NUMBERS_IN_FRAME):
        part = array.array("Q", numbers[start:start + NUMBERS_IN_FRAME])
        frames.append(pack(kind, len(numbers), nonce, part.tobytes()))
    return b"".join(frames)


def frames_of(count: int, each: int = NUMBERS_IN_FRAME) -> int:
    """How many frames `count` things take."""
    return max(1, -(-count // each))


def unpack_numbers(frames: list[Frame]) -> list[int]:
    """The numbers of the frames that `pack_numbers` made."""
    numbers = array.array("Q")
    for frame in frames:
        numbers.frombytes(frame.body[: NUMBERS_IN_FRAME * 8])
    return list(numbers[: frames[0].number])


def pack_witness(us: float, nonce: int) -> bytes:
    """Microseconds a call by the worker's own clock."""
    return pack(WITNESSED, 1, nonce, _WITNESS.pack(us))


def witnessed_us(frame: Frame) -> Optional[float]:
    """What a worker claims; None for what is no time at all."""
    us: float = _WITNESS.unpack(frame.body[: _WITNESS.size])[0]
    return us if 0 < us < 1e12 else None


def pack_outputs(outputs: list[OutputAt], nonce: int) -> bytes:
    """Where the outputs lie, in as many frames as they need."""
    frames = []
    for start in range(0, len(outputs), OUTPUTS_IN_FRAME):
        part = outputs[start:start + OUTPUTS_IN_FRAME]
        frames.append(pack(OUTPUT, len(part), nonce, b"".join(map(_pack_output, part))))
    return b"".join(frames)


def _pack_output(output: OutputAt) -> bytes:
    pad = (0,) * (MAX_DIMENSIONS - len(output.shape))
    return _OUTPUT.pack(
        output.call, output.which, DTYPES.index(output.dtype), len(output.shape), output.segment, 0,
        output.offset, output.storage_bytes, *output.shape, *pad, *output.strides, *pad,
    )


def unpack_outputs(frame: Frame) -> list[OutputAt]:
    """What `pack_outputs` packed into this frame; raises Junk when it cannot be."""
    outputs = []
    if frame.number > OUTPUTS_IN_FRAME:
        raise Junk("a frame of %d outputs" % frame.number)
    for at in range(frame.number):
        call, index, dtype, ndim, segment, _, offset, nbytes, *dims = _OUTPUT.unpack_from(frame.body, at * _OUTPUT.size)
        if dtype >= len(DTYPES) or ndim > MAX_DIMENSIONS:
            raise Junk("an output of dtype %d with %d dimensions" % (dtype, ndim))
        shape, strides = tuple(dims[:ndim]), tuple(dims[MAX_DIMENSIONS:MAX_DIMENSIONS + ndim])
        outputs.append(OutputAt(call, index, DTYPES[dtype], shape, strides, segment, offset, nbytes))
    return outputs


def pack_segment(number: int, size: int, handle: bytes, nonce: int) -> bytes:
    """A device allocation that outputs lie in, by its inter-process handle."""
    return pack(SEGMENT, number, nonce, _SEGMENT.pack(size, handle))


def unpack_segment(frame: Frame) -> tuple[int, int, bytes]:
    """Number, size in bytes and handle of a SEGMENT frame."""
    size, handle = _SEGMENT.unpack_from(frame.body)
    return frame.number, size, handle


def pack_text(kind: int, count: int, text: str, nonce: int = 0) -> bytes:
    """A frame whose body is text, cut to what fits."""
    return pack(kind, count, nonce, text.encode("utf-8", "replace")[:BODY_BYTES])


def text_of(frame: Frame) -> str:
    """The text of a frame that `pack_text` made."""
    return frame.body.rstrip(b"\0").decode("utf-8", "replace")


def receive_exactly(channel: socket.socket, size: int, deadline: Optional[float] = None) -> bytes:
    """`size` bytes; raises EOFError when the other end is gone, socket.timeout when they do not come in time.

    `deadline`, of time.monotonic, is for all of them together: one that sends a byte now and then gains nothing.
    """
    parts = []
    while size:
        if deadline is not None:
            channel.settimeout(max(0.001, deadline - time.monotonic()))
        part = channel.recv(min(size, 1 << 20))
        if not part:
            raise EOFError("the other end is gone")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def send_message(channel: socket.socket, message: Any, fds: tuple[int, ...] = ()) -> None:
    """A JSON message, with open files beside it; between processes that run no candidate."""
    data = json.dumps(message).encode("utf-8")
    header = struct.pack("<IB", len(data), len(fds))
    if fds:
        channel.sendmsg([header], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])
        channel.sendall(data)
    else:
        channel.sendall(header + data)


def receive_message(channel: socket.socket, limit: int = 64 << 20) -> tuple[Any, list[int]]:
    """The next JSON message and its open files; raises EOFError when the other end is gone."""
    header, fds = b"", array.array("i")
    while len(header) < 5:
        part, ancillary, _, _ = channel.recvmsg(5 - len(header), socket.CMSG_SPACE(16 * fds.itemsize))
        if not part:
            raise EOFError("the other end is gone")
        header += part
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    size, _ = struct.unpack("<IB", header)
    if size > limit:
        raise Junk("a message of %d bytes" % size)
    return json.loads(receive_exactly(channel, size)), list(fds)
