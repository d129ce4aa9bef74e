"""Memory that two processes see: shared slots over a fork, another process's memory, and ranges that share a byte."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hotkernel_contract.slots import ALIGNMENT, HostArena, lay_out, overlap, read_process, views

TENSORS = {
    "x": torch.arange(33, dtype=torch.float32).view(3, 11),
    "at": torch.arange(7),
    "mask": torch.tensor([True, False]),
    "half": torch.ones(5, dtype=torch.bfloat16),
    "one": torch.tensor(2.5),
}


def in_child(work) -> int:
    """Run `work` in a fork; its answer as exit status."""
    pid = os.fork()
    if pid == 0:
        status = 99
        try:
            status = work()
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


# Layout ---------------------------------------------------------------------------------------------------------------


def test_slots_are_aligned_and_apart_and_inside():
    fields, size = lay_out(TENSORS, {"x": 5, "at": 1, "mask": 3, "half": 2, "one": 4})
    ranges = sorted((f.offset + k * f.slot_bytes, f.slot_bytes) for f in fields for k in range(f.count))

    assert all(start % ALIGNMENT == 0 for start, _ in ranges)
    assert all(a + length <= b for (a, length), (b, _) in itertools.pairwise(ranges))
    assert ranges[-1][0] + ranges[-1][1] == size


def test_a_views_bytes_are_its_slots_alone():
    fields, size = lay_out(TENSORS, dict.fromkeys(TENSORS, 2))
    arena = HostArena(size)
    columns = {f.name: views(arena.base, f) for f in fields}
    for name, tensor in TENSORS.items():
        columns[name][1].copy_(tensor)

    for name, tensor in TENSORS.items():
        assert torch.equal(columns[name][1], tensor)
        assert columns[name][1].dtype is tensor.dtype
        assert not columns[name][0].any()


def test_an_empty_tensor_still_has_a_slot():
    fields, size = lay_out({"none": torch.empty(0, 4)}, {"none": 2})

    assert size >= ALIGNMENT
    assert [v.shape for v in views(HostArena(size).base, fields[0])] == [(0, 4), (0, 4)]


# Shared memory --------------------------------------------------------------------------------------------------------


def test_what_a_fork_writes_the_other_sees():
    arena = HostArena(4096)
    arena.base[100] = 7

    def work() -> int:
        same = HostArena(4096, arena.fd)
        seen = int(same.base[100])
        same.base[200] = 9
        return seen

    assert in_child(work) == 7
    assert int(arena.base[200]) == 9


def test_an_arena_has_no_name_that_another_program_could_open():
    arena = HostArena(4096)

    assert "(deleted)" in str(Path(f"/proc/self/fd/{arena.fd}").readlink())
    assert not os.get_inheritable(arena.fd)


# Another process's memory ---------------------------------------------------------------------------------------------

HOLDER = """
import ctypes, sys
held = ctypes.create_string_buffer(bytes(range(256)) * 4096)
print(ctypes.addressof(held), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder():
    """A child that holds a megabyte of known bytes: the process and the address."""
    with subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        yield process, int(process.stdout.readline())
        process.stdin.close()  # type: ignore[union-attr]
        process.wait(10)


def test_a_childs_memory_is_read_whole(holder):
    process, address = holder
    into = torch.empty(1 << 20, dtype=torch.uint8)
    read_process(process.pid, address, into)

    assert torch.equal(into, torch.arange(256, dtype=torch.uint8).repeat(4096))


def test_a_childs_memory_is_read_from_any_place_and_in_any_dtype(holder):
    process, address = holder
    into = torch.empty(3, 5, dtype=torch.int32)
    read_process(process.pid, address + 5, into)

    assert into.view(torch.uint8).flatten().tolist() == list(range(5, 65))


@pytest.mark.parametrize("address", [0, 8, 2**63, 2**64 - 4096])
def test_an_address_where_nothing_is_is_an_error_and_no_crash(holder, address):
    process, _ = holder

    with pytest.raises(OSError, match="reading 16 bytes"):
        read_process(process.pid, address, torch.empty(16, dtype=torch.uint8))


def test_a_range_that_ends_outside_is_an_error(holder):
    process, address = holder

    with pytest.raises(OSError, match="reading"):
        read_process(process.pid, address, torch.empty(1 << 32, dtype=torch.uint8))


def test_a_process_that_is_gone_cannot_be_read():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)

    with pytest.raises(ProcessLookupError):
        read_process(pid, 4096, torch.empty(16, dtype=torch.uint8))


# Overlap --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ranges", "shares"), [
    ([], False),
    ([(0, 0, 10)], False),
    ([(0, 0, 10), (0, 10, 10)], False),
    ([(0, 10, 10), (0, 0, 10)], False),
    ([(0, 0, 10), (0, 9, 10)], True),
    ([(0, 5, 1), (0, 0, 10)], True),
    ([(0, 0, 10), (0, 0, 10)], True),
    ([(0, 0, 10), (1, 0, 10)], False),
    ([(-1, 0, 100), (-1, 200, 1), (-1, 40, 10)], True),
])
def test_ranges_that_share_a_byte_are_found(ranges, shares):
    assert overlap(ranges) is shares


def test_overlap_says_what_a_set_of_bytes_says():
    chance = random.Random(4)
    answers = set()
    for _ in range(500):
        ranges = [(chance.randint(0, 1), chance.randint(0, 60), 6) for _ in range(chance.randint(2, 8))]
        bytes_of = [(s, at) for s, start, size in ranges for at in range(start, start + size)]
        shares = len(set(bytes_of)) < len(bytes_of)
        assert overlap(ranges) is shares
        answers.add(shares)

    assert answers == {True, False}
