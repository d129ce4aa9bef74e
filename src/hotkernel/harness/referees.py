"""Starts the process that owns one verify and takes it a request, both ends of it; what it does then is hotkernel.referee's."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.machine import driver
from hotkernel.machine.process import Job
from hotkernel_contract import protocol

AHEAD_S = 600.0  # so long one waits for a request: it holds the driver, and a card that is held cannot sleep or be reset
ASK_TIMEOUT_S = 60.0


class RefereeProcess:
    """A referee that waits for its request on its standard input, and ends when that does."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.job, self.environment, self.began = Job(), dict(environment), time.monotonic()
        self.words = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self.channel, theirs = socket.socketpair()
        with theirs:
            self.process = self.job.start(
                [sys.executable, "-P", "-m", "hotkernel.referee"], env=_finding_ourselves(environment),
                stdin=theirs.fileno(), stdout=subprocess.PIPE, stderr=self.words)

    def ask(self, request: Mapping[str, Any], zygote: socket.socket) -> None:
        """Hand it a request and its connection to the zygote."""
        self.channel.settimeout(ASK_TIMEOUT_S)
        with contextlib.suppress(OSError):  # it is gone already: whoever waits for its answer says so
            protocol.send_message(self.channel, request, (zygote.fileno(),))

    @property
    def is_waiting(self) -> bool:
        """Whether it will still be there for a request."""
        return self.process.poll() is None and time.monotonic() - self.began < AHEAD_S - ASK_TIMEOUT_S

    def hand_over(self, job: Job) -> None:
        """Let another job end it. Raises Cancelled where that one was cancelled."""
        self.job.hand_over(self.process, job)
        self.job = job

    def last_words(self, limit: int = 2000) -> str:
        """The end of what it printed beside its answers."""
        size = self.words.seek(0, os.SEEK_END)
        self.words.seek(max(0, size - limit))
        return self.words.read().decode("utf-8", "replace")

    def close(self) -> None:
        """End it; safe to call again."""
        self.channel.close()
        self.job.end(self.process)
        self.words.close()


def wait_for_request(server: socket.socket) -> tuple[Any, socket.socket] | None:
    """In the referee: its request and the zygote's socket; None when none has come in AHEAD_S, or the server is gone.

    From the request on, the process ends when the server does.
    Who was started ahead opens the driver meanwhile: where nobody holds it, that takes 0.3 s, and whoever comes next waits.
    """
    if not select.select([server], [], [], 0)[0]:
        with contextlib.suppress(ToolError):
            driver.open_driver()  # until this process ends
        if not select.select([server], [], [], AHEAD_S)[0]:
            return None
    with contextlib.suppress(EOFError):
        request, (zygote,) = protocol.receive_message(server)
        threading.Thread(target=_end_with, args=(server,), daemon=True).start()
        return request, socket.socket(fileno=zygote)
    return None


def _end_with(server: socket.socket) -> None:
    server.recv(1)
    os._exit(1)


def _finding_ourselves(environment: Mapping[str, str]) -> dict[str, str]:
    """The referee is ours: it finds this very package, whatever the caller's PYTHONPATH says."""
    here = str(Path(__file__).resolve().parents[2])
    kept = [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part and part != here]
    return {**environment, "PYTHONPATH": os.pathsep.join([here, *kept])}
