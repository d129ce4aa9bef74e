"""Where the time of a verify goes, by name; measures no function."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator


class Phases:
    """Seconds by name, added up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def of(self, name: str) -> Iterator[None]:
        """The time of this `with` block is `name`'s."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.monotonic() - began


class Laps:
    """The parts of something that is done many times, one after the other."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.seconds, self.last = seconds, time.monotonic()

    def lap(self, part: str) -> None:
        """The time since the last lap was `part`'s."""
        now = time.monotonic()
        self.seconds[part] = self.seconds.get(part, 0.0) + now - self.last
        self.last = now
