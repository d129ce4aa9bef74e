"""The words on the wire come back as they were sent, and any other bytes are Junk and nothing else."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading

import pytest

from hotkernel_contract import protocol
from hotkernel_contract.protocol import Frame, Junk, OutputAt

MOST = 2**64 - 1


def random_outputs(chance: random.Random, count: int) -> list[OutputAt]:
    made = []
    for call in range(count):
        shape = tuple(chance.randrange(1, 2**40) for _ in range(chance.randint(0, protocol.MAX_DIMENSIONS)))
        strides = tuple(chance.randrange(-(2**40), 2**40) for _ in shape)
        made.append(OutputAt(call, 0, chance.choice(protocol.DTYPES), shape, strides, chance.randint(-1, 2**31 - 1),
                             chance.randint(0, MOST), chance.randint(0, MOST)))
    return made


def frames_in(data: bytes) -> list[Frame]:
    size = protocol.FRAME_BYTES
    assert len(data) % size == 0
    return [protocol.unpack(data[at:at + size]) for at in range(0, len(data), size)]


# Round trips ----------------------------------------------------------------------------------------------------------


def test_a_frame_comes_back_as_it_was_packed():
    frame = protocol.unpack(protocol.pack(protocol.RUN, 65535, MOST, b"body"))

    assert (frame.kind, frame.number, frame.nonce) == (protocol.RUN, 65535, MOST)
    assert frame.body.rstrip(b"\0") == b"body"


def test_every_frame_is_of_one_size():
    whole = [protocol.pack(protocol.HELLO), protocol.pack_text(protocol.FAULT, 1, "x" * 5000),
             protocol.pack_segment(3, 2 << 20, b"h" * 64, 9), protocol.pack(protocol.END, 0, 1, b"z" * protocol.BODY_BYTES)]

    assert {len(frame) for frame in whole} == {protocol.FRAME_BYTES}


def test_a_body_that_does_not_fit_is_refused_where_it_is_made():
    with pytest.raises(ValueError, match="body of"):
        protocol.pack(protocol.END, 0, 0, b"z" * (protocol.BODY_BYTES + 1))


@pytest.mark.parametrize("count", [0, 1, protocol.NUMBERS_IN_FRAME, protocol.NUMBERS_IN_FRAME + 1, 1000])
def test_numbers_come_back_over_as_many_frames_as_they_need(count):
    numbers = [random.Random(count).randint(0, MOST) for _ in range(count)]
    frames = frames_in(protocol.pack_numbers(protocol.DONE, numbers, 5))

    assert len(frames) == protocol.frames_of(count)
    assert protocol.unpack_numbers(frames) == numbers


@pytest.mark.parametrize("count", [0, 1, protocol.OUTPUTS_IN_FRAME, protocol.OUTPUTS_IN_FRAME + 1, 240])
def test_outputs_come_back_over_as_many_frames_as_they_need(count):
    outputs = random_outputs(random.Random(count), count)

    assert [o for frame in frames_in(protocol.pack_outputs(outputs, 7)) for o in protocol.unpack_outputs(frame)] == outputs


def test_a_segment_comes_back_with_its_handle():
    handle = bytes(range(64))

    assert protocol.unpack_segment(protocol.unpack(protocol.pack_segment(3, 2**40, handle, 9))) == (3, 2**40, handle)


def test_text_comes_back_and_is_cut_to_what_fits():
    short = protocol.unpack(protocol.pack_text(protocol.FAULT, 2, "größer: ✗"))
    long = protocol.unpack(protocol.pack_text(protocol.FAULT, 2, "é" * 5000))

    assert protocol.text_of(short) == "größer: ✗"
    assert 0 < len(protocol.text_of(long)) <= protocol.BODY_BYTES


# Junk -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [
    b"", b"HK4", b'{"ms": 0.01}\n', b"\0" * protocol.FRAME_BYTES, b"HK3\0" + bytes(protocol.FRAME_BYTES - 4),
    protocol.pack(protocol.HELLO)[:-1], protocol.pack(protocol.HELLO) + b"\0",
], ids=["nothing", "a piece", "a line", "zeros", "another protocol", "short", "long"])
def test_bytes_that_are_no_frame_are_junk(data):
    with pytest.raises(Junk):
        protocol.unpack(data)


@pytest.mark.parametrize(("dtype", "dimensions", "count"), [(len(protocol.DTYPES), 1, 1), (0, protocol.MAX_DIMENSIONS + 1, 1),
                                                           (0, 1, protocol.OUTPUTS_IN_FRAME + 1), (0, 1, 65535)])
def test_an_output_that_cannot_be_is_junk(dtype, dimensions, count):
    body = struct.pack("<HHHHiIQQ8q8q", 0, 0, dtype, dimensions, -1, 0, 0, 0, *range(16))

    with pytest.raises(Junk):
        protocol.unpack_outputs(protocol.unpack(protocol.pack(protocol.OUTPUT, count, 0, body)))


def test_random_bytes_give_a_frame_or_junk_and_nothing_else():
    chance = random.Random(20)
    seen = {"frame": 0, "junk": 0}
    for _ in range(3000):
        data = bytearray(chance.randbytes(chance.choice((protocol.FRAME_BYTES,) * 3 + (chance.randrange(0, 2048),))))
        if chance.random() < 0.6:
            data[:4] = protocol.pack(protocol.HELLO)[:4]
        try:
            frame = protocol.unpack(bytes(data))
            seen["frame"] += 1
        except Junk:
            seen["junk"] += 1
            continue
        for read in (protocol.unpack_outputs, protocol.unpack_segment, protocol.text_of, lambda f: protocol.unpack_numbers([f])):
            try:
                read(frame)
            except Junk:
                seen["junk"] += 1

    assert min(seen.values()) > 500


def test_a_frame_with_any_one_byte_changed_is_still_a_frame_or_junk():
    chance = random.Random(21)
    whole = protocol.pack_outputs(random_outputs(chance, 3), 7)
    for at in range(0, 600):
        data = bytearray(whole)
        data[at] ^= chance.randint(1, 255)
        try:
            frame = protocol.unpack(bytes(data))
            outputs = protocol.unpack_outputs(frame)
        except Junk:
            continue
        assert len(outputs) == frame.number
        assert all(len(o.shape) == len(o.strides) <= protocol.MAX_DIMENSIONS for o in outputs)


# Over a socket --------------------------------------------------------------------------------------------------------


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    theirs.settimeout(10)
    yield ours, theirs
    ours.close()
    theirs.close()


def test_a_message_comes_with_the_files_that_were_sent_beside_it(ends, tmp_path):
    ours, theirs = ends
    file = tmp_path / "shared"
    file.write_bytes(b"seen by both")
    with open(file, "rb") as one:
        protocol.send_message(ours, {"op": "fork", "text": "größer"}, (one.fileno(),))
        message, files = protocol.receive_message(theirs)

    assert message == {"op": "fork", "text": "größer"}
    assert len(files) == 1
    assert os.pread(files[0], 99, 0) == b"seen by both"
    os.close(files[0])


def test_messages_keep_their_bounds_whatever_the_sizes(ends):
    ours, theirs = ends
    sent = [{"n": n, "fill": "x" * n} for n in (0, 1, 70_000, 3, 400_000)]
    writer = threading.Thread(target=lambda: [protocol.send_message(ours, message) for message in sent])
    writer.start()
    received = [protocol.receive_message(theirs)[0] for _ in sent]
    writer.join(10)

    assert received == sent


def test_an_end_that_is_gone_is_an_eof_and_not_half_a_message(ends):
    ours, theirs = ends
    ours.sendall(struct.pack("<IB", 100, 0) + b'{"half": ')
    ours.close()

    with pytest.raises(EOFError):
        protocol.receive_message(theirs)


def test_an_end_that_is_gone_is_an_eof_for_a_frame_too(ends):
    ours, theirs = ends
    ours.sendall(protocol.pack(protocol.HELLO)[:100])
    ours.close()

    with pytest.raises(EOFError):
        protocol.receive_exactly(theirs, protocol.FRAME_BYTES)


def test_a_message_larger_than_the_limit_is_junk_before_it_is_read(ends):
    ours, theirs = ends
    ours.sendall(struct.pack("<IB", 2**31, 0))

    with pytest.raises(Junk):
        protocol.receive_message(theirs)


def test_a_frame_that_does_not_come_is_a_timeout(ends):
    _, theirs = ends
    theirs.settimeout(0.05)

    with pytest.raises(TimeoutError):
        protocol.receive_exactly(theirs, protocol.FRAME_BYTES)
