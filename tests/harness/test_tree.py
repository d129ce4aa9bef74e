"""A process tree stands still as a whole, a grandchild in a session of its own included, and goes on as a whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from process_trees import all_ended, are_gone, is_alive, numbers_in, wait_until

from hotkernel.machine import tree

pytestmark = pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")

# A parent, a child, a grandchild in a session of its own and one below that; each counts in a file as fast as it may.
FAMILY = """
import os, sys, time
folder = sys.argv[1]
def note():
    with open(os.path.join(folder, "pids"), "a") as file:
        file.write("%d\\n" % os.getpid())
def count():
    with open(os.path.join(folder, str(os.getpid())), "wb", buffering=0) as file:
        while True:
            file.write(b".")
            time.sleep(0.001)
note()
if os.fork() == 0:
    note()
    if os.fork() == 0:
        os.setsid()
        note()
        if os.fork() == 0:
            note()
count()
"""


class Family:
    """Four generations of one process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen([sys.executable, "-c", FAMILY, str(folder)], start_new_session=True)
        self.pids = numbers_in(folder / "pids", 4)

    def written(self) -> list[int]:
        return [file.stat().st_size if (file := self.folder / str(pid)).exists() else 0 for pid in self.pids]

    def all_move(self) -> bool:
        before = self.written()
        return wait_until(lambda: all(b < now for b, now in zip(before, self.written(), strict=True)))


@pytest.fixture
def family(tmp_path: Path) -> Iterator[Family]:
    family = Family(tmp_path)
    with all_ended(family.pids):
        yield family
    family.process.wait(10)


def test_every_descendant_is_found_whatever_its_session(family):
    assert tree.descendants(family.process.pid) == set(family.pids) - {family.process.pid}


def test_a_process_without_children_has_no_descendants(family):
    assert tree.descendants(family.pids[-1]) == set()
    assert tree.descendants(2**22 + 1) == set()


def test_the_whole_tree_stands_still(family):
    assert family.all_move()
    standing = tree.stand_still(family.process.pid)
    before = family.written()
    wait_until(lambda: False, 0.05)

    assert standing is not None
    assert set(standing) == set(family.pids)
    assert family.written() == before
    assert {psutil.Process(pid).status() for pid in family.pids} == {psutil.STATUS_STOPPED}


def test_the_whole_tree_goes_on(family):
    standing = tree.stand_still(family.process.pid)
    assert standing is not None
    tree.go_on(standing)

    assert family.all_move()


def test_a_tree_stands_and_goes_many_times(family):
    for _ in range(20):
        standing = tree.stand_still(family.process.pid)
        assert standing is not None
        tree.go_on(standing)

    assert family.all_move()


def test_a_tree_that_stands_already_is_known_to_stand(family):
    tree.stand_still(family.process.pid)

    assert set(tree.stand_still(family.process.pid) or ()) == set(family.pids)


def test_a_tree_whose_member_ends_while_it_stands_is_no_trouble(family):
    standing = tree.stand_still(family.process.pid)
    os.kill(family.pids[-1], signal.SIGKILL)
    assert are_gone(family.pids[-1:], 5)
    assert standing is not None
    tree.go_on(standing)

    assert tree.stand_still(family.process.pid) is not None


def test_a_process_that_is_gone_stands(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait(10)

    assert tree.stand_still(process.pid) is not None
    tree.go_on([process.pid])


FORKER = """
import os, sys
print("ready", flush=True)
while True:
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os._exit(0)
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_a_tree_that_keeps_forking_stands_too():
    with subprocess.Popen([sys.executable, "-c", FORKER], stdout=subprocess.PIPE, start_new_session=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        stood = [tree.stand_still(process.pid) is not None and psutil.Process(process.pid).status() == psutil.STATUS_STOPPED
                 for _ in range(10)]
        for pid in [*tree.descendants(process.pid), process.pid]:
            os.kill(pid, signal.SIGKILL)

    assert all(stood)


def test_time_spent_waiting_for_a_core_is_counted_and_only_grows():
    spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * (os.cpu_count() or 1))]
    try:
        before = tree.waited_us(spinner.pid)
        assert wait_until(lambda: tree.waited_us(spinner.pid) > before + 1000)
    finally:
        for process in (spinner, *others):
            process.kill()
            process.wait(10)

    assert tree.waited_us(spinner.pid) == 0.0
    assert not is_alive(spinner.pid)
