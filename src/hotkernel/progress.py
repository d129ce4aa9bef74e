"""Says on standard error how far a tool is: a bar with what runs now on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from hotkernel.render import clean

SHOWN = 120  # characters of what runs now
PATIENCE_S = 1.0  # what is over sooner needs no bar


class Progress:
    """One tool's progress; on a terminal nothing of it is seen within the first second, nor left when it ends."""

    def __init__(self, name: str) -> None:
        self._is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._now: tuple[str, int | None, int | None] = (name, None, None)  # of a tool that says nothing, its name
        self._line = ""
        self._lock = threading.Lock()
        self._bar: Any = None
        self._task: Any = None
        self._timer = threading.Timer(PATIENCE_S, self._start)
        self._timer.daemon = True

    def __enter__(self) -> Progress:
        if self._is_terminal:
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._is_terminal = False  # a timer that fires now starts nothing
            if self._bar is not None:
                self._bar.stop()

    def say(self, message: str, done: int | None = None, total: int | None = None) -> None:
        """What runs now and, where it can be counted, how much of it is done."""
        count = f" {done}/{total}" if done is not None and total is not None else ""
        line = f"{clean(message)}{count}"
        if line == self._line:
            return
        self._line = line
        if not self._is_terminal:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()
            return
        with self._lock:
            self._now = message, done, total
            self._draw()

    def _start(self) -> None:
        with self._lock:
            if self._is_terminal:
                self._bar = _bar()
                self._task = self._bar.add_task("", total=None, count="")
                self._draw()
                self._bar.start()

    def _draw(self) -> None:
        if self._bar is None:
            return
        message, done, total = self._now
        count = f"{done}/{total}" if done is not None and total else ""
        self._bar.update(self._task, description=clean(message, SHOWN), total=total, completed=done or 0, count=count)


def _bar() -> Any:
    """A bar, the count, the time so far, and what runs now."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    words = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
    return Bar(SpinnerColumn(), BarColumn(bar_width=24), TextColumn("{task.fields[count]}", markup=False), TimeElapsedColumn(),
               words, console=Console(stderr=True), transient=True, expand=True)
