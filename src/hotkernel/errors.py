"""The one error a tool raises for its caller; anything else that escapes is a bug."""

from __future__ import annotations


class ToolError(Exception):
    """What happened, and what to do next.

    `message` is one sentence; `fix` says what to do; `detail` is evidence (a log's tail, say), bounded by whoever raises.
    """

    def __init__(self, message: str, *, fix: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix
        self.detail = detail

    def __str__(self) -> str:
        text = f"{self.message} -> {self.fix}"
        return f"{text}\n{self.detail}" if self.detail else text
