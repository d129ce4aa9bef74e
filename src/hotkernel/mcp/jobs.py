"""The one engine of long calls: each runs in a thread of its own and can be waited for, watched and cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import enum
import itertools
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio

from hotkernel.errors import ToolError
from hotkernel.machine.process import Cancelled
from hotkernel.machine.supervised_job import SupervisedJob
from hotkernel.session import Session
from hotkernel.tool import Tool, unknown

KEPT_S = 3600.0  # how long an answer waits to be fetched
KEPT = 64  # answers kept at most
CANCEL_S = 8.0  # TERM, two graces and KILL fit into this; more is a thread that computes without looking up

log = logging.getLogger(__name__)


class State(enum.StrEnum):
    """Where a call stands."""

    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Said:
    """The last thing that a tool said about how far it is."""

    message: str
    done: int | None = None
    total: int | None = None


@dataclass
class Call:
    """One call under way, or ended and not yet fetched; its thread writes, the door reads."""

    id: str
    tool: Tool
    job: SupervisedJob
    started_s: float
    ended: anyio.Event
    state: State = State.RUNNING
    said: Said = field(default_factory=lambda: Said("started"))
    result: Any = None
    error: BaseException | None = None
    answer: Any = None  # as it was told first, so that asking twice gives the same
    ended_s: float | None = None
    started_at: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    updated_at: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))

    @property
    def ran_s(self) -> float:
        return (time.monotonic() if self.ended_s is None else self.ended_s) - self.started_s


class Engine:
    """All calls of one server; used from the event loop's thread alone."""

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._serial = itertools.count(1)

    def start(self, tool: Tool, arguments: Mapping[str, Any], make_session: Callable[..., Session],
              job: SupervisedJob) -> Call:
        """Start `tool` in a thread of its own; the call is known to `get` and `running` until it is forgotten."""
        self._forget_old()
        call = Call(f"{tool.name}-{next(self._serial)}-{secrets.token_hex(3)}", tool, job, time.monotonic(),
                    anyio.Event())
        loop = asyncio.get_running_loop()

        def say(message: str, done: int | None = None, total: int | None = None) -> None:
            call.said, call.updated_at = Said(message, done, total), datetime.datetime.now(datetime.UTC)

        def work() -> None:
            try:
                outcome = _run(tool, make_session(progress=say, job=job), arguments)
            finally:
                job.end_all()
            call.ended_s, call.updated_at = time.monotonic(), datetime.datetime.now(datetime.UTC)
            state, call.result, call.error = outcome
            call.state = state  # last: whoever sees it finds the rest
            with contextlib.suppress(RuntimeError):  # the loop is closed: the server is leaving and nobody waits
                loop.call_soon_threadsafe(call.ended.set)

        self._calls[call.id] = call
        threading.Thread(target=work, name=call.id, daemon=True).start()
        return call

    async def wait(self, call: Call, seconds: float) -> bool:
        """Whether the call has ended, after at most `seconds`."""
        with anyio.move_on_after(seconds):
            await call.ended.wait()
        return call.ended.is_set()

    async def cancel(self, call: Call) -> None:
        """Stop the call and wait until nothing of it is left, even if the waiter is itself cancelled."""
        call.job.cancel()
        with anyio.move_on_after(CANCEL_S, shield=True):
            await call.ended.wait()

    def get(self, call_id: str) -> Call:
        """The call of that id; ArgumentError when there is none."""
        if call_id not in self._calls:
            raise unknown(f"there is no job {call_id[:80]!r}", call_id, self._calls)
        return self._calls[call_id]

    def forget(self, call: Call) -> None:
        """Keep nothing of a call whose answer was given."""
        self._calls.pop(call.id, None)

    def all(self) -> list[Call]:
        """Every call that is running or not yet forgotten, oldest first."""
        self._forget_old()
        return list(self._calls.values())

    async def stop(self, seconds: float) -> None:
        """Cancel everything and give it `seconds` to clean up."""
        running = [call for call in self._calls.values() if not call.ended.is_set()]
        for call in running:
            call.job.cancel()
        with anyio.move_on_after(seconds, shield=True):
            for call in running:
                await call.ended.wait()

    def _forget_old(self) -> None:
        ended = [call for call in self._calls.values() if call.ended_s is not None]
        now = time.monotonic()
        for position, call in enumerate(reversed(ended)):
            if position >= KEPT or now - (call.ended_s or now) > KEPT_S:
                self.forget(call)


def _run(tool: Tool, session: Session, arguments: Mapping[str, Any]) -> tuple[State, Any, BaseException | None]:
    try:
        return State.DONE, tool.function(session, **arguments), None
    except Cancelled as stopped:
        return State.CANCELLED, None, stopped
    except ToolError as error:
        return State.FAILED, None, error
    except Exception as error:
        log.exception("%s raised", tool.name)  # the caller learns only that it happened
        return State.FAILED, None, error
