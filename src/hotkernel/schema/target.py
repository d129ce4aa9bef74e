"""The noun that new_target answers: which files it wrote, what a call of the target takes, and what to do next."""

from __future__ import annotations

from dataclasses import dataclass

from hotkernel.schema.comparison import PROTOCOL

SCHEMA = 1


@dataclass(frozen=True)
class NewTarget:
    """A target that was made and tried: everything but `files` was seen when it ran."""

    target: str
    files: dict[str, str]  # contract, baseline, candidate -> absolute path
    inputs: dict[str, str]  # what a call takes, in order: name -> shape:dtype
    output: str  # shape:dtype
    dtype: str
    rotate: tuple[str, ...]  # the inputs that stream through memory, fresh for every call
    device: str  # that it was tried on
    next: tuple[str, ...]  # commands
    candidate_is_copy: bool  # false: it calls the function, since its source is not the user's or runs only where it lies
    torch: str | None = None
    pinned: tuple[str, ...] = ()  # the files that an edit of makes the next verdict invalid
    warnings: tuple[str, ...] = ()
    protocol: int = PROTOCOL
    schema: int = SCHEMA
