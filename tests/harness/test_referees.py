"""A server's next referee waits for it, is used by one verify alone, and ends with whoever keeps it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from hotkernel.harness.zygote import Nursery
from hotkernel.machine.process import Cancelled, Job
from hotkernel.mcp.surroundings import Surroundings

SOURCES = Path(__file__).parents[2] / "src"
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}


@contextlib.contextmanager
def server() -> Iterator[Nursery]:
    nursery = Nursery()
    try:
        yield nursery
    finally:
        nursery.close()


def test_the_next_verify_of_this_environment_takes_the_one_that_waits():
    with server() as nursery:
        nursery.start_ahead(ENVIRONMENT)
        waiting, job = nursery._referee, Job()
        taken = nursery.referee(job, dict(ENVIRONMENT))
        taken.close()

        assert taken is waiting
        assert nursery._referee is None
        assert taken.process.poll() is not None


def test_another_environment_gets_another_and_the_one_that_waited_ends():
    with server() as nursery:
        nursery.start_ahead(ENVIRONMENT)
        waiting = nursery._referee
        assert waiting is not None
        with contextlib.closing(nursery.referee(Job(), {**ENVIRONMENT, "OMP_NUM_THREADS": "1"})) as taken:
            assert taken is not waiting
            assert waiting.process.poll() is not None


def test_one_that_was_killed_is_not_used():
    with server() as nursery:
        nursery.start_ahead(ENVIRONMENT)
        waiting = nursery._referee
        assert waiting is not None
        waiting.process.kill()
        waiting.process.wait(10)
        with contextlib.closing(nursery.referee(Job(), ENVIRONMENT)) as taken:
            assert taken is not waiting


def test_a_cancel_ends_the_one_that_was_taken_and_a_cancelled_job_takes_none():
    with server() as nursery:
        nursery.start_ahead(ENVIRONMENT)
        job = Job()
        taken = nursery.referee(job, ENVIRONMENT)
        job.cancel()
        taken.process.wait(10)
        taken.close()
        nursery.start_ahead(ENVIRONMENT)

        with pytest.raises(Cancelled):
            nursery.referee(job, ENVIRONMENT)
        assert nursery._referee  # it is the next one's


def test_what_waits_ends_with_the_nursery():
    with server() as nursery:
        nursery.start_ahead(ENVIRONMENT)
        waiting = nursery._referee
    assert waiting is not None
    assert waiting.process.poll() is not None


def test_the_agents_door_is_a_server(tmp_path):
    assert Surroundings.of(ENVIRONMENT, tmp_path).nursery.is_served


def test_what_waits_ends_when_its_server_is_killed():
    code = ("import os, sys, time; from hotkernel.harness.zygote import Nursery; n = Nursery(); "
            "n.start_ahead(dict(os.environ)); print(n._referee.process.pid, flush=True); time.sleep(60)")
    caller = subprocess.Popen([sys.executable, "-c", code], env={**ENVIRONMENT, "PYTHONPATH": str(SOURCES)},
                              stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    waiting = psutil.Process(int(caller.stdout.readline()))
    caller.send_signal(signal.SIGKILL)
    caller.communicate(timeout=10)

    assert psutil.wait_procs([waiting], timeout=10)[1] == []
