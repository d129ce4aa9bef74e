"""Says on standard error how far a tool is: a bar with what runs now on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import sys
from typing import Any

from hotkernel.render import clean

SHOWN = 120  # characters of what runs now


class Progress:
    """One tool's progress; on a terminal nothing of it is left when it ends."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._last = ""
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, message: str, done: int | None = None, total: int | None = None) -> None:
        """What runs now and, where it can be counted, how much of it is done."""
        count = f" {done}/{total}" if done is not None and total is not None else ""
        line = f"{clean(message)}{count}"
        if line == self._last:
            return
        self._last = line
        if self._is_terminal:
            self._draw(clean(message, SHOWN), done, total)
        else:
            sys.stderr.write(f"{line}\n")
            sys.stderr.flush()

    def _draw(self, message: str, done: int | None, total: int | None) -> None:
        if self._bar is None:
            self._bar = _bar()
            self._task = self._bar.add_task(message, total=None, count="")
            self._bar.start()
        count = f"{done}/{total}" if done is not None and total else ""
        self._bar.update(self._task, description=message, total=total, completed=done or 0, count=count)


def _bar() -> Any:
    """A bar, the count, the time so far, and what runs now."""
    from rich.console import Console
    from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar
    from rich.table import Column

    words = TextColumn("{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis"))
    return Bar(SpinnerColumn(), BarColumn(bar_width=24), TextColumn("{task.fields[count]}", markup=False), TimeElapsedColumn(),
               words, console=Console(stderr=True), transient=True, expand=True)
