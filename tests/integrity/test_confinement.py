"""What a worker cannot do any more once it is confined, tried by real processes; and what honest work still can."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotkernel_contract import confinement
from hotkernel_contract.protocol import CONFINEMENT

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="confinement is Linux's")
needs_landlock = pytest.mark.skipif(confinement.landlock_version() < 1, reason="this kernel has no Landlock to confine with")
needs_signals = pytest.mark.skipif(confinement.landlock_version() < 6, reason="this kernel's Landlock does not hold signals")
SOURCES = Path(__file__).parents[2] / "src"

# Confines itself, then runs what it was given; says as JSON what came of it.
PROGRAM = """
import json, os, signal, socket, subprocess, sys, time
from hotkernel_contract import confinement
held = confinement.confine({card})
def tried(what):
    try:
        return ["done", str(what())]
    except (OSError, subprocess.CalledProcessError) as error:
        return ["refused", type(error).__name__]
print(json.dumps([held, tried(lambda: {what})]))
"""


def tried(tmp_path: Path, what: str, *, card: bool = False) -> tuple[int, list[str]]:
    """The bits that held, and whether `what` was done or refused, in a fresh confined process."""
    own = tmp_path / "own"
    (own / "tmp").mkdir(parents=True, exist_ok=True)
    environment = {"PATH": os.environ["PATH"], "HOME": str(own), "TMPDIR": str(own / "tmp"), "PYTHONPATH": str(SOURCES)}
    done = subprocess.run([sys.executable, "-c", PROGRAM.format(what=what, card=card)], env=environment, capture_output=True,
                          text=True, timeout=60, check=True)
    held, outcome = json.loads(done.stdout)
    return held, outcome


def test_what_holds_is_said_by_the_bits_of_the_wire(tmp_path):
    held, _ = tried(tmp_path, "None")
    version = confinement.landlock_version()
    words = {name for bit, name in enumerate(CONFINEMENT) if held >> bit & 1}

    assert {"no_new_privs", "no_core_dump"} <= words
    assert ("landlock" in words) == (version >= 1)
    assert ("landlock_signals" in words) == (version >= 6)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="this machine has one core")
@pytest.mark.parametrize("asks", [
    "os.sched_setaffinity(0, %r)",
    "subprocess.run([sys.executable, '-c', 'import os; os.sched_setaffinity(0, %r)'], check=True)"])
def test_it_stays_on_its_cores_and_hears_of_no_error(tmp_path, asks):
    own = sorted(os.sched_getaffinity(0))
    held, outcome = tried(tmp_path, f"[{asks % own[:1]}, len(os.sched_getaffinity(0))][1]")

    assert outcome[0] == "done"
    if "own_cores" in {name for bit, name in enumerate(CONFINEMENT) if held >> bit & 1}:
        assert outcome[1] == str(len(own))


@pytest.mark.parametrize("asks", [
    "os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))", "os.setpriority(os.PRIO_PROCESS, 0, 19)", "os.nice(19)",
    "subprocess.run(['nice', '-n', '19', 'true'], check=True)",
    "subprocess.run([sys.executable, '-c', 'import os; os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)'], check=True)"])
def test_it_keeps_its_priority_and_its_parents_and_hears_of_no_error(tmp_path, asks):
    known = os.getpriority(os.PRIO_PROCESS, 0), os.SCHED_OTHER
    held, outcome = tried(tmp_path, f"[{asks}, [os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)]][1]")

    assert outcome[0] == "done"
    if "own_cores" in {name for bit, name in enumerate(CONFINEMENT) if held >> bit & 1}:
        assert outcome[1] == str(list(known))


@needs_landlock
@pytest.mark.parametrize("what", [
    "open('{out}/new', 'w')", "open('{out}/there', 'a')", "os.truncate('{out}/there', 0)", "os.unlink('{out}/there')",
    "os.mkdir('{out}/folder')", "os.rename('{out}/there', '{own}/mine')", "os.rename('{own}/a', '{out}/a')",
    "os.link('{out}/there', '{own}/link')", "os.symlink('x', '{out}/link')", "os.mkfifo('{out}/pipe')",
])
def test_nothing_outside_its_own_folders_is_written(tmp_path, what):
    out, own = tmp_path / "out", tmp_path / "own"
    out.mkdir()
    own.mkdir()
    (out / "there").write_text("kept", encoding="utf-8")
    (own / "a").write_text("a", encoding="utf-8")
    _, outcome = tried(tmp_path, what.format(out=out, own=own))

    assert outcome[0] == "refused"
    assert [path.name for path in out.iterdir()] == ["there"]
    assert (out / "there").read_text(encoding="utf-8") == "kept"


@pytest.mark.skipif(os.geteuid() != 0, reason="whoever is not root has none of these rights")
@pytest.mark.parametrize("what", [
    "time.clock_settime(time.CLOCK_REALTIME, time.time())", "socket.sethostname(socket.gethostname())",
    "os.setresuid(65534, 65534, 65534)",
    "subprocess.run([sys.executable, '-c', 'import socket; socket.sethostname(socket.gethostname())'], check=True, "
    "stderr=subprocess.DEVNULL)"])
def test_it_has_none_of_roots_rights_over_the_machine(tmp_path, what):
    held, outcome = tried(tmp_path, what)

    assert "few_rights" in {name for bit, name in enumerate(CONFINEMENT) if held >> bit & 1}
    assert outcome[0] == "refused"


@pytest.mark.skipif(os.geteuid() != 0, reason="whoever is not root has none of these rights")
def test_root_still_reads_and_writes_where_it_may(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "closed").write_text("", encoding="utf-8")
    os.chown(tmp_path / "own" / "closed", 65534, 65534)
    (tmp_path / "own" / "closed").chmod(0o000)

    assert tried(tmp_path, f"open({str(tmp_path / 'own' / 'closed')!r}, 'r+').read()")[1][0] == "done"


@needs_landlock
def test_it_names_its_threads_and_weighs_its_session_no_more_than_others(tmp_path):
    assert tried(tmp_path, "open(f'/proc/self/task/{os.getpid()}/comm', 'w').write('named')")[1][0] == "done"
    assert tried(tmp_path, "open('/proc/self/autogroup', 'w').write('1')")[1][0] == "refused"


@needs_landlock
def test_a_child_is_confined_too(tmp_path):
    child = f"subprocess.run([sys.executable, '-c', 'open(\"{tmp_path}/new\", \"w\")'], capture_output=True).returncode"
    _, outcome = tried(tmp_path, child)

    assert outcome == ["done", "1"]
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("what", [
    "open('{own}/new', 'w').write('x')", "os.rename('{own}/a', '{own}/tmp/b')", "open('/dev/null', 'w').write('x')",
    "open('/proc/self/comm', 'w').write('side')", "os.ftruncate(os.memfd_create('slots'), 4096)",
    "os.kill(subprocess.Popen(['sleep', '9']).pid, signal.SIGKILL)", "open('{out}/there').read()", "os.listdir('{out}')",
    "__import__('multiprocessing').Lock()",
])
def test_what_honest_work_needs_still_goes(tmp_path, what):
    out, own = tmp_path / "out", tmp_path / "own"
    out.mkdir()
    own.mkdir()
    (out / "there").write_text("read me", encoding="utf-8")
    (own / "a").write_text("a", encoding="utf-8")

    assert tried(tmp_path, what.format(out=out, own=own))[1][0] == "done"


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler here")
def test_a_compiler_still_compiles(tmp_path):
    line = "echo 'int main(){{return 7;}}' > $TMPDIR/a.c && cc $TMPDIR/a.c -o $HOME/a && $HOME/a"

    assert tried(tmp_path, f"subprocess.run(['sh', '-c', \"{line}\"]).returncode".replace("{{", "{").replace("}}", "}"))[1] == [
        "done", "7"]


@needs_landlock
@pytest.mark.parametrize("what", ["open('/proc/{pid}/mem', 'r+b')", "os.readlink('/proc/{pid}/fd/1')",
                                  "open('/proc/{pid}/fd/1', 'w')"])
def test_another_process_is_not_looked_into(tmp_path, what):
    """The judge's processes are of the same user, and here often root's: only this keeps a candidate out of them."""
    with subprocess.Popen(["sleep", "60"], stdout=subprocess.PIPE) as other:
        try:
            assert tried(tmp_path, what.format(pid=other.pid))[1][0] == "refused"
        finally:
            other.kill()


@needs_signals
@pytest.mark.parametrize("number", ["SIGSTOP", "SIGCONT", "SIGKILL"])
def test_another_process_is_not_signalled(tmp_path, number):
    with subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert tried(tmp_path, f"os.kill({other.pid}, signal.{number})")[1] == ["refused", "PermissionError"]
            assert other.poll() is None
        finally:
            other.kill()


@needs_landlock
@pytest.mark.skipif(not list(Path("/dev").glob("nvidia[0-9]*")), reason="no NVIDIA device here")
def test_the_card_is_reached_only_where_it_is_measured(tmp_path):
    device = next(iter(Path("/dev").glob("nvidia[0-9]*")))

    assert tried(tmp_path, f"os.open('{device}', os.O_RDWR)", card=True)[1][0] == "done"
    assert tried(tmp_path, f"os.open('{device}', os.O_RDWR)", card=False)[1][0] == "refused"
