"""The zygote forks what it is asked to, and takes everything with it: at a connection's end, and at its owner's death."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
from judged import Judged
from process_trees import all_ended, are_gone, is_alive, numbers_in, wait_until
from workers import GOOD, Nest, own_environment, start_zygote

from hotkernel.errors import ToolError
from hotkernel.harness.links import WorkerLink
from hotkernel.harness.zygote import Nursery, Zygote
from hotkernel_contract import protocol

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "src"

# A candidate that leaves a child, a grandchild in a session of its own, and a daemon whose parent is gone.
FAMILY = """
import os, subprocess, time
def note(pid):
    with open(os.environ["HOME"] + "/pids", "a") as file:
        file.write("%d\\n" % pid)
def wait():
    while True:
        time.sleep(60)
note(os.getpid())
if os.fork() == 0:
    note(os.getpid())
    if os.fork() == 0:
        os.setsid()
        note(os.getpid())
        wait()
    wait()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        note(os.getpid())
        wait()
    os._exit(0)
def candidate(x):
    return x * 2
"""
FAMILY_SIZE = 4
# A target whose outputs are copied into slots too.
COPIED = """
from hotkernel_contract import Target
def twice(x):
    return x * 2
TARGET = Target(name="t", function=twice, inputs={"x": "64x64"}, dtype="fp32", device="cpu", reuses_output=True)
"""


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    zygote = start_zygote(tmp_path_factory.mktemp("zygote"))
    yield zygote
    zygote.close()


@pytest.fixture
def nest(zygote: Zygote, tmp_path: Path) -> Iterator[Nest]:
    nest = Nest(zygote, tmp_path)
    yield nest
    nest.close()


def family_of(worker: WorkerLink) -> list[int]:
    """All of FAMILY, once it is there."""
    return numbers_in(worker.log.parent / "pids", FAMILY_SIZE)


# Ready ----------------------------------------------------------------------------------------------------------------


def test_it_says_what_torch_it_imported(zygote):
    assert zygote.versions.torch == torch.__version__
    assert zygote.versions.python == ".".join(map(str, sys.version_info[:3]))
    assert zygote.is_alive


def test_a_worker_is_forked_in_well_under_the_time_of_an_import_of_torch(nest):
    began = time.monotonic()
    nest.ready(nest.worker())

    assert time.monotonic() - began < 1.5


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="a process cannot be kept to some cores here")
def test_what_counts_cores_as_it_is_imported_has_as_many_threads_as_a_side_has_cores(zygote, nest):
    worker = nest.worker("import numpy, os\n"
                         "def candidate(x):\n"
                         "    square = numpy.ones((512, 512), numpy.float32)\n"
                         "    square @ square\n"
                         "    assert len(os.listdir('/proc/self/task')) <= len(os.sched_getaffinity(0))\n"
                         "    return x * 2\n")
    nest.ready(worker)

    assert os.sched_getaffinity(worker.pid) == set(zygote.cores)
    assert len(zygote.cores) == max(1, len(os.sched_getaffinity(0)) - 1)


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="a process cannot be kept to some cores here")
def test_an_oracle_has_all_cores(nest):
    pid, channel = nest.fork.child("oracle", own_environment(), {}, nest.folder / "log")
    protocol.send_message(channel, {"op": "nothing"})
    protocol.receive_message(channel)  # so that it has begun

    assert os.sched_getaffinity(pid) == os.sched_getaffinity(0)
    channel.close()


def test_a_worker_runs_batches(nest):
    worker = nest.worker()
    nest.ready(worker)

    for nonce in range(1, 6):
        outputs = nest.batch(worker, nonce=nonce)
        assert [o.shape for o in outputs] == [(3, 4)] * 4


def test_a_child_has_its_own_session_environment_and_channel_and_nothing_else(nest, tmp_path):
    facts = """
import json, os, sys
with open(os.environ["HOME"] + "/facts", "w") as file:
    json.dump({"sid": os.getsid(0), "pid": os.getpid(), "fds": sorted(os.listdir("/proc/self/fd")), "env": dict(os.environ),
               "name": __name__, "path": sys.path, "cwd": os.getcwd(), "stdin": os.read(0, 10).decode()}, file)
print("said at import", flush=True)
"""
    worker = nest.worker(facts + GOOD)
    nest.ready(worker)
    home = tmp_path / "side-1"
    found = json.loads((home / "facts").read_text(encoding="utf-8"))

    assert found["sid"] == found["pid"] == worker.pid
    assert set(found["env"]) <= {"PATH", "HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR",
                                 "TORCH_EXTENSIONS_DIR", "CUDA_CACHE_PATH", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                                 "LC_CTYPE"}
    assert found["env"]["HOME"] == found["cwd"] == str(home)
    assert len(found["fds"]) <= 7  # the three of any program, the channel, the slots, the file itself and the listing
    assert found["name"] != "__main__"
    assert found["stdin"] == ""
    assert str(SOURCES / "hotkernel_contract") not in found["path"]
    assert "said at import" in (home / "log").read_text(encoding="utf-8")


def test_two_sides_see_nothing_of_each_others_modules(nest):
    marks = "import sys\nassert not hasattr(sys, 'marked'), 'seen'\nsys.marked = True\n"
    for _ in range(2):
        nest.ready(nest.worker(marks + GOOD))


# Ends -----------------------------------------------------------------------------------------------------------------


def test_a_child_that_is_ended_takes_its_family_with_it_and_leaves_the_others(nest):
    stays = nest.worker()
    nest.ready(stays)
    worker = nest.worker(FAMILY)
    nest.ready(worker)
    family = family_of(worker)
    with all_ended(family):
        nest.fork.end([worker.pid])
        nest.fork.sweep()

        assert are_gone(family, 5)
        assert is_alive(stays.pid)
        assert nest.batch(stays)


def test_a_connection_that_closes_takes_its_children_and_no_one_elses(zygote, tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    going, staying = Nest(zygote, tmp_path / "a"), Nest(zygote, tmp_path / "b")
    parent, other = going.worker(FAMILY), staying.worker()
    going.ready(parent)
    staying.ready(other)
    family = family_of(parent)
    with all_ended(family):
        going.close()

        assert are_gone(family, 5)
        assert staying.batch(other)
        staying.close()
        assert are_gone([other.pid], 5)


IN_MEMORY = Path("/dev/shm")
KEEPS_EVENTS = """
import os
open("/dev/shm/cuda.shm.%x.%x.1" % (os.getuid(), os.getpid()), "w").close()  # as CUDA does for an event that is shared
""" + GOOD


@pytest.mark.skipif(not IN_MEMORY.is_dir(), reason="needs /dev/shm")
def test_what_cuda_keeps_in_dev_shm_for_a_worker_goes_with_it_and_nobody_elses(nest):
    others = [IN_MEMORY / f"cuda.shm.{os.getuid():x}.{os.getpid():x}.test"]
    ended, hung = nest.worker(KEEPS_EVENTS), nest.worker(KEEPS_EVENTS)
    for worker in (ended, hung):
        nest.ready(worker)
    files = [IN_MEMORY / f"cuda.shm.{os.getuid():x}.{worker.pid:x}.1" for worker in (ended, hung)]
    others.append(files[0].with_suffix(".older"))
    try:
        for other in others:
            other.touch()
        os.utime(others[1], (0, 0))
        assert all(file.exists() for file in files)

        nest.fork.end([ended.pid])
        nest.close()

        assert wait_until(lambda: not files[1].exists())
        assert not files[0].exists()
        assert all(other.exists() for other in others)
    finally:
        for file in (*files, *others):
            file.unlink(missing_ok=True)


@pytest.mark.skipif(not IN_MEMORY.is_dir(), reason="needs /dev/shm")
def test_an_oracle_and_a_worker_that_are_killed_leave_nothing_in_dev_shm(zygote, tmp_path):
    """Their slots have no name: memory that goes with the last process that has it open."""
    before = set(IN_MEMORY.iterdir())
    nest = Nest(zygote, tmp_path)
    judged = Judged(nest, COPIED)
    worker = judged.worker(GOOD)
    judged.run(worker)
    for pid in (worker.pid, judged.oracle.pid):
        os.kill(pid, signal.SIGKILL)

        assert are_gone([pid], 5)
    nest.close()
    assert set(IN_MEMORY.iterdir()) <= before


def test_a_stopped_worker_is_ended_all_the_same(nest):
    worker = nest.worker()
    nest.ready(worker)
    worker.stand_still()
    nest.fork.end([worker.pid])

    assert are_gone([worker.pid], 5)


def test_processes_that_left_their_tree_are_counted_and_ended(zygote, nest):
    nest.ready(nest.worker())
    nest.fork.sweep()
    assert nest.fork.sweep() == 0
    parent = nest.worker(FAMILY)
    nest.ready(parent)
    family = family_of(parent)
    with all_ended(family):
        orphan = orphan_in(family, zygote)

        assert nest.fork.sweep() == 1
        assert are_gone([orphan], 5)
        assert all(is_alive(pid) for pid in family if pid != orphan)
        assert nest.fork.sweep() == 0


def test_a_process_that_left_its_tree_and_has_ended_is_counted_too(nest, tmp_path):
    """Else it would come after the inputs and go before anybody looks."""
    leaves = "import os\nif os.fork() == 0:\n    if os.fork() == 0:\n        pass\n    os._exit(0)\nos.wait()\n" + GOOD
    worker = nest.worker(leaves)
    nest.ready(worker)

    assert wait_until(lambda: nest.fork.sweep() == 1)
    assert nest.fork.sweep() == 0


def test_settling_waits_until_the_ended_are_gone(nest):
    workers = [nest.worker() for _ in range(3)]
    for worker in workers:
        nest.ready(worker)
    nest.fork.end([worker.pid for worker in workers], wait=False)
    nest.fork.settle()

    assert not any(is_alive(worker.pid) for worker in workers)


def test_the_family_of_a_worker_that_is_being_ended_has_not_left_its_tree(nest):
    stays = "import os, time\nif os.fork() == 0:\n    while True:\n        time.sleep(60)\n" + GOOD
    nest.fork.sweep()
    for _ in range(5):
        worker = nest.worker(stays)
        nest.ready(worker)
        nest.fork.end([worker.pid], wait=False)

        assert nest.fork.sweep() == 0


def orphan_in(family: list[int], zygote: Zygote) -> int:
    """The member that has become the zygote's own, once it has."""
    def orphans() -> list[int]:
        return [pid for pid in family[1:] if psutil.Process(pid).ppid() == zygote.pid]

    assert wait_until(lambda: len(orphans()) == 1)
    return orphans()[0]


RESPAWNER = """
import os, time
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork():
            os._exit(0)
        with open(os.environ["HOME"] + "/beat", "a") as file:
            file.write(".")
        time.sleep(0.001)
def candidate(x):
    return x * 2
"""


def test_a_process_that_changes_its_pid_all_the_time_is_ended_too(zygote, tmp_path):
    nest = Nest(zygote, tmp_path)
    worker = nest.worker(RESPAWNER)
    nest.ready(worker)
    beat = worker.log.parent / "beat"
    assert wait_until(lambda: beat.exists() and beat.stat().st_size > 20)
    nest.close()
    again = Nest(zygote, tmp_path / "again")
    (tmp_path / "again").mkdir()
    again.ready(again.worker())  # the zygote answers in turn: it has cleaned up by now
    size = beat.stat().st_size
    wait_until(lambda: beat.stat().st_size > size, 0.3)

    assert beat.stat().st_size == size
    again.close()


def test_junk_on_a_connection_ends_that_connection_alone(zygote, tmp_path):
    ours, theirs = socket.socketpair()
    protocol.send_message(zygote.owner, {"op": "attach"}, (theirs.fileno(),))
    protocol.receive_message(zygote.owner)
    theirs.close()
    ours.settimeout(5)
    ours.sendall(b"\xff" * 5 + b"{" * 300)
    nest = Nest(zygote, tmp_path)
    nest.ready(nest.worker())
    nest.close()

    assert is_hung_up(ours)
    ours.close()


def test_a_connection_that_is_gone_when_its_answer_comes_is_the_end_of_that_connection_alone(zygote, tmp_path):
    for _ in range(20):
        going = Nest(zygote, tmp_path)
        for _ in range(50):  # more than it can answer before we are gone
            protocol.send_message(going.connection, {"op": "sweep"})
        going.close()
    nest = Nest(zygote, tmp_path)
    nest.ready(nest.worker())
    nest.close()

    assert zygote.is_alive


def test_a_zygote_that_has_ended_is_an_error_that_says_to_call_again(tmp_path):
    zygote = start_zygote(tmp_path)
    os.kill(zygote.pid, signal.SIGKILL)
    zygote.process.wait(10)

    with pytest.raises(ToolError, match="has ended by itself"):
        zygote.attach()


def is_hung_up(channel: socket.socket) -> bool:
    """Whether the other end closed it, with our bytes read or not."""
    try:
        return channel.recv(10) == b""
    except ConnectionResetError:
        return True


# The owner's end ------------------------------------------------------------------------------------------------------


def test_an_owner_that_closes_ends_the_zygote_with_all_it_forked(tmp_path):
    zygote = start_zygote(tmp_path)
    nest = Nest(zygote, tmp_path)
    parent = nest.worker(FAMILY)
    nest.ready(parent)
    family = family_of(parent)
    with all_ended(family):
        zygote.close()

        assert not zygote.is_alive
        assert are_gone(family, 5)


def test_after_sigkill_of_the_zygote_itself_nothing_of_its_workers_is_left(tmp_path):
    zygote = start_zygote(tmp_path)
    nest = Nest(zygote, tmp_path)
    worker = nest.worker(FAMILY)
    nest.ready(worker)
    family = family_of(worker)
    with all_ended(family):
        os.kill(zygote.pid, signal.SIGKILL)

        assert are_gone(family, 5)
        assert wait_until(lambda: not zygote.is_alive)
    zygote.close()


OWNER = """
import sys, time
from pathlib import Path
sys.path[:0] = [sys.argv[1], sys.argv[2]]
from workers import Nest, start_zygote
import test_zygote
folder = Path(sys.argv[3])
zygote = start_zygote(folder)
nest = Nest(zygote, folder)
worker = nest.worker(test_zygote.FAMILY)
nest.ready(worker)
test_zygote.family_of(worker)
print(zygote.process.pid, zygote.pid, worker.pid, flush=True)
time.sleep(60)
"""


def test_after_sigkill_of_the_owner_no_process_is_left(tmp_path):
    with subprocess.Popen([sys.executable, "-c", OWNER, str(HERE), str(SOURCES), str(tmp_path)],
                          stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pids = [int(word) for word in owner.stdout.readline().split()]
        family = numbers_in(tmp_path / "side-1" / "pids", FAMILY_SIZE)
        with all_ended([*pids, *family]):
            assert len(set(family) | set(pids)) == FAMILY_SIZE + 2  # the zygote and its supervisor
            assert all(is_alive(pid) for pid in (*pids, *family))
            owner.send_signal(signal.SIGKILL)

            assert are_gone([*pids, *family], 5)


def test_ctrl_c_in_the_terminal_is_the_owners_to_handle(zygote):
    os.kill(zygote.pid, signal.SIGINT)

    assert not wait_until(lambda: not zygote.is_alive, 0.1)


# What cannot start ----------------------------------------------------------------------------------------------------


def script(folder: Path, body: str) -> Path:
    file = folder / "python"
    file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    file.chmod(0o755)
    return file


def test_a_python_without_torch_is_refused_with_what_to_set(tmp_path):
    bare = script(tmp_path, f'exec "{sys.executable}" -I -S "$@"')  # no site-packages: no torch

    with pytest.raises(ToolError, match="cannot import torch: ModuleNotFoundError") as refusal:
        Zygote(bare, own_environment(), tmp_path / "log")
    assert "HOTKERNEL_PYTHON" in refusal.value.fix


@pytest.mark.parametrize(("body", "said"), [
    ("echo not a python at all >&2; exit 3", "not a python at all"),
    ('echo "{\\"torch\\": \\"9.9\\"}"; exit 0', "9.9"),
    ("kill -9 $$", ""),
])
def test_what_is_no_python_is_refused_with_what_it_said(tmp_path, body, said):
    with pytest.raises(ToolError, match="cannot run hotkernel's contract") as refusal:
        Zygote(script(tmp_path, body), own_environment(), tmp_path / "log")
    assert said in refusal.value.detail


def test_the_contract_starts_on_python_3_9(tmp_path):
    asked = subprocess.run(["sh", "-c", "python3.9 -c 'import sys; print(sys.executable)'"], capture_output=True, text=True,
                           check=False)  # a version manager's shim is there and may not start
    if not asked.stdout.strip():
        pytest.skip("no Python 3.9 here")
    old = script(tmp_path, f'exec "{asked.stdout.strip()}" -I -S "$@"')

    with pytest.raises(ToolError, match="cannot import torch: ModuleNotFoundError"):  # its own words, so its code runs
        Zygote(old, own_environment(), tmp_path / "log")


# Kept warm ------------------------------------------------------------------------------------------------------------


def test_one_zygote_serves_until_the_interpreter_or_the_environment_changes(tmp_path):
    nursery, python = Nursery(), Path(sys.executable)
    first = nursery.zygote(python, own_environment(), tmp_path / "log")
    try:
        assert nursery.zygote(python, {**own_environment(), "HF_TOKEN": "not seen anyway"}, tmp_path / "log") is first
        second = nursery.zygote(python, {**own_environment(), "OMP_NUM_THREADS": "1"}, tmp_path / "log")
        assert second is not first
        assert not first.is_alive
        os.kill(second.pid, signal.SIGKILL)
        second.process.wait(10)
        third = nursery.zygote(python, {**own_environment(), "OMP_NUM_THREADS": "1"}, tmp_path / "log")
        assert third.is_alive
    finally:
        nursery.close()

    assert not third.is_alive


def test_a_torch_that_was_upgraded_in_place_is_loaded_anew(tmp_path):
    """A torch of one's own that another install writes over; the rest of it is the real one."""
    folder = tmp_path / "site"
    (folder / "torch").mkdir(parents=True)
    real = Path(torch.__file__).parent
    for each in real.iterdir():
        if each.name != "version.py":
            (folder / "torch" / each.name).symlink_to(each)
    version = folder / "torch" / "version.py"
    version.write_text((real / "version.py").read_text(encoding="utf-8"), encoding="utf-8")
    nursery, environment = Nursery(), {**own_environment(), "PYTHONPATH": str(folder)}
    first = nursery.zygote(Path(sys.executable), environment, tmp_path / "log")
    same = nursery.zygote(Path(sys.executable), environment, tmp_path / "log")
    version.write_text(version.read_text(encoding="utf-8") + "\n# another build\n", encoding="utf-8")
    other = nursery.zygote(Path(sys.executable), environment, tmp_path / "log")
    nursery.close()

    assert first is same
    assert other is not first
    assert are_gone([first.pid], 5)
