"""The zygote: imports torch once, touches no CUDA, and forks oracles and workers on request.

`python boot.py FD`: FD is a socket to its owner. It answers there, never on stdout. A connection that closes takes its
children with it, down to the last grandchild; when the owner's closes, so does the zygote.
"""

from __future__ import annotations

import ctypes
import glob
import os
import select
import signal
import socket
import sys
import tempfile
import time
import traceback
import types
from pathlib import Path
from typing import Iterable

HERE = Path(__file__).resolve().parent
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_CHILD_SUBREAPER, _PR_SET_PTRACER = 1, 4, 36, 0x59616D61
_ANY = 2**64 - 1
SWEEP_S = 2.0  # a process that changes its pid all the time is chased so long
BORN = time.time()
# CUDA keeps a process's inter-process events in files of this name: whose, its pid in hex, which. Killed, it leaves them.
EVENTS = "/dev/shm/cuda.shm.*.%x.*"


def bind_package() -> None:
    """Make this folder importable as `hotkernel_contract` and leave the rest of sys.path as the user's own."""
    sys.path[:] = [folder for folder in sys.path if Path(folder or ".").resolve() != HERE]
    package = types.ModuleType("hotkernel_contract")
    package.__path__ = [str(HERE)]
    package.__file__ = str(HERE / "__init__.py")
    sys.modules["hotkernel_contract"] = package
    source = (HERE / "__init__.py").read_text(encoding="utf-8")
    exec(compile(source, package.__file__, "exec"), package.__dict__)


def prctl(option: int, value: int) -> bool:
    """Ask the kernel for a property of this process; False where there is no such thing."""
    if not sys.platform.startswith("linux"):
        return False
    return ctypes.CDLL(None).prctl(option, ctypes.c_ulong(value), 0, 0, 0) == 0


def own_cores() -> list[int]:
    """The cores that this process may run on."""
    return sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else list(range(os.cpu_count() or 1))


def stay_on(cores: list[int]) -> None:
    """Keep to these cores, where the system can be told."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)


class Zygote:
    """Its owner, the connections it made for verifies, and the children of each; `cores`: all that an oracle may run on."""

    def __init__(self, owner: socket.socket, cores: list[int]) -> None:
        from hotkernel_contract import protocol

        self.protocol = protocol
        self.owner, self.cores = owner, cores
        self.children: dict[socket.socket, set[int]] = {owner: set()}
        self.dying: set[int] = set()  # killed, and not waited for
        self.escaped = 0  # processes that left their tree and ended before a sweep

    def serve(self) -> None:
        """Answer until the owner is gone."""
        while True:
            ready, _, _ = select.select(list(self.children), [], [], 1.0)
            self.reap()
            for connection in ready:
                try:
                    self.answer(connection, *self.protocol.receive_message(connection))
                except (EOFError, OSError, ValueError, self.protocol.Junk):  # gone, maybe with a request under way
                    self.hang_up(connection)
                    if connection is self.owner:
                        return

    def answer(self, connection: socket.socket, message: dict, fds: list[int]) -> None:
        """Do one request: attach a connection, fork a child, end one."""
        if message["op"] == "attach":
            self.children[socket.socket(fileno=fds[0])] = set()
            self.protocol.send_message(connection, {"ok": True})
        elif message["op"] == "fork":
            pid = self.fork(message, fds)
            self.children[connection].add(pid)
            self.protocol.send_message(connection, {"pid": pid})
        elif message["op"] == "end":
            self.dying |= kill_trees(message["pids"], message["wait"])
            self.children[connection].difference_update(message["pids"])
            self.protocol.send_message(connection, {"ok": True})
        elif message["op"] == "settle":
            self.settle()
            self.protocol.send_message(connection, {"ok": True})
        elif message["op"] == "sweep":
            self.protocol.send_message(connection, {"orphans": self.sweep()})

    def fork(self, message: dict, fds: list[int]) -> int:
        """A child in a session of its own, with its channel and its log and nothing else of ours."""
        pid = os.fork()
        if pid:
            for fd in fds:
                os.close(fd)
            return pid
        try:
            channel = prepare_child(message["env"], fds)
            if message["role"] == "oracle":
                from hotkernel_contract import oracle

                stay_on(self.cores)
                prctl(_PR_SET_DUMPABLE, 0)  # no other process of this user may read its memory
                oracle.main(channel)
            else:
                from hotkernel_contract import worker

                prctl(_PR_SET_PTRACER, _ANY)  # the oracle reads the outputs where they lie
                worker.main(channel, message["spec"])
        except BaseException:  # noqa: BLE001 - the last frame of a child: say it in the log and end
            traceback.print_exc()
        finally:
            os._exit(1)

    def hang_up(self, connection: socket.socket) -> None:
        """End what this connection started."""
        self.dying |= kill_trees(self.children.pop(connection, set()))
        connection.close()
        self.sweep()

    def sweep(self) -> int:
        """End orphans: what a child left behind becomes ours (sub-reaper) and belongs to nobody. Returns how many there were
        since the last sweep, those that have ended by themselves included.

        Until there are none, for one may have forked as it was killed.
        """
        deadline = time.monotonic() + SWEEP_S
        while True:
            self.reap()
            orphans = children_of(os.getpid()) - self.dying.union(*self.children.values())
            if not orphans or time.monotonic() > deadline:
                found, self.escaped = self.escaped, 0
                return found
            self.escaped += len(orphans)
            self.dying |= kill_trees(orphans)

    def settle(self) -> None:
        """Wait until what was killed is gone, at most SWEEP_S: a context's end keeps the card busy for a while."""
        deadline = time.monotonic() + SWEEP_S
        while self.dying & children_of(os.getpid()) and time.monotonic() < deadline:
            time.sleep(0.002)
            self.reap()

    def reap(self) -> None:
        """Collect what has ended, so that no pid is kept; count what was nobody's."""
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self.escaped += pid not in self.dying.union(*self.children.values())
            self.dying.discard(pid)


def prepare_child(environment: dict, fds: list[int]) -> socket.socket:
    """Descriptors, session, environment of a fresh fork; returns its channel."""
    os.setsid()
    prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    prctl(_PR_SET_CHILD_SUBREAPER, 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    channel_fd, log_fd = fds
    os.dup2(log_fd, 1)
    os.dup2(log_fd, 2)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    if channel_fd != 3:  # onto itself it is an error
        channel_fd = os.dup2(channel_fd, 3, inheritable=False)
    os.closerange(4, 65536)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # cached by whoever asked before the fork
    return socket.socket(fileno=channel_fd)


def children_of(pid: int) -> set[int]:
    """The living direct children: by the kernel's own list, else by a walk over /proc; empty where there is none."""
    try:
        words = [(task / "children").read_text(encoding="ascii").split() for task in Path("/proc/%d/task" % pid).iterdir()]
        found = {int(word) for part in words for word in part}
    except OSError:
        found = {int(entry.name) for entry in Path("/proc").glob("[0-9]*") if stat_of(entry.name)[1:2] == [str(pid)]}
    return {child for child in found if stat_of(child)[:1] not in ([], ["Z"])}


def stat_of(pid: object) -> list:
    """State, parent and the rest of /proc/PID/stat; empty when it is gone."""
    try:
        return Path("/proc/%s/stat" % pid).read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []


def kill_trees(pids: Iterable[int], wait: bool = True) -> set[int]:
    """Kill processes with their sessions and every descendant, and return them all; wait until the given ones are gone,
    at most three seconds."""
    roots = set(pids)
    victims, todo = set(roots), list(roots)
    while todo:
        for child in children_of(todo.pop()) - victims:
            victims.add(child)
            todo.append(child)
    for victim in victims:
        for kill in (os.killpg, os.kill):
            try:
                kill(victim, signal.SIGKILL)
            except OSError:
                pass
    deadline = time.monotonic() + (3.0 if wait else 0.0)
    while roots and time.monotonic() < deadline:
        roots = {pid for pid in roots if is_running(pid)}
        time.sleep(0.002 if roots else 0.0)
    remove_events(victims)
    return victims


def remove_events(pids: Iterable[int]) -> None:
    """Delete what CUDA kept in /dev/shm for these processes, which were ours and are killed.

    What is older than this process is not theirs: containers that share /dev/shm number their processes alike.
    """
    for pid in pids:
        for file in glob.glob(EVENTS % pid):
            try:
                if os.stat(file).st_mtime >= BORN:
                    os.unlink(file)
            except OSError:
                pass


def is_running(pid: int) -> bool:
    """Whether a child of ours has not ended yet; collects it when it has."""
    try:
        done, _ = os.waitpid(pid, os.WNOHANG)
    except OSError:
        return False
    return done == 0


def main() -> None:
    """Import torch, say so, serve."""
    owner = socket.socket(fileno=int(sys.argv[1]))
    os.dup2(2, 1)  # whatever an import prints must not be taken for an answer
    bind_package()
    from hotkernel_contract import protocol

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the owner's to handle; we end when it does
    cores = own_cores()
    of_sides = cores[1:] or cores  # a team of threads that shares its last core with the system waits for it
    stay_on(of_sides)  # before the import: what counts cores then (OpenBLAS, OpenMP) has threads that wait for each other
    try:
        import torch
    except BaseException as error:  # noqa: BLE001 - a broken install raises anything; the owner turns it into words
        protocol.send_message(owner, {"error": "%s: %s" % (type(error).__name__, error)})
        return
    from hotkernel_contract import oracle, warming, worker  # noqa: F401 - once, for every child, from one state of the disk

    warming.warm_triton()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)
    prctl(_PR_SET_DUMPABLE, 0)
    protocol.send_message(owner, {"torch": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip,
                                  "files": [torch.version.__file__, sys.executable], "cores": of_sides,
                                  "python": "%d.%d.%d" % sys.version_info[:3], "pid": os.getpid()})
    zygote = Zygote(owner, cores)
    try:
        zygote.serve()
    finally:
        for connection in list(zygote.children):
            zygote.hang_up(connection)


if __name__ == "__main__":
    main()
