"""The nouns of code that is being read: an instruction, a function, what it needs; SASS and PTX share them."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from hotkernel.schema.explanation import SourcePlace


@dataclass(frozen=True)
class Access:
    """What one instruction does to memory; `bits` is a thread's share, null where the opcode does not say."""

    space: str  # global, generic, shared, local
    is_store: bool
    bits: int | None
    is_spill: bool = False  # addressed off the stack pointer: a spilled register, or an array with fixed indices


@dataclass(frozen=True)
class Instruction:
    """One instruction of SASS or PTX; `targets` are positions in its function, `address` an offset or a PTX line."""

    address: int
    predicate: str
    opcode: str
    operands: str
    family: str
    access: Access | None = None
    place: SourcePlace | None = None
    targets: tuple[int, ...] = ()
    falls_through: bool = True

    @property
    def base(self) -> str:
        return self.opcode.split(".", 1)[0]

    @property
    def text(self) -> str:
        return " ".join(part for part in (self.predicate, self.opcode, self.operands) if part)


@dataclass(frozen=True)
class Function:
    """One kernel's instructions, less the padding behind them; `labels` are (position, name) of what branches name."""

    name: str
    arch: str | None
    instructions: tuple[Instruction, ...]
    labels: tuple[tuple[int, str], ...] = ()
    directives: tuple[str, ...] = ()  # PTX: .reqntid, .maxnreg and their like
    stack_bytes: int | None = None  # PTX: the local depot


@dataclass(frozen=True)
class ResourceUsage:
    """What the file says a kernel needs; null where the program that read it does not say."""

    function: str
    arch: str | None
    registers: int | None
    stack_bytes: int | None = None
    shared_bytes: int | None = None
    spill_store_bytes: int | None = None  # ptxas alone says these two
    spill_load_bytes: int | None = None


NAME_LIMIT = 200
_SEQUENCES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_DROPPED = frozenset({"Cc", "Cf", "Cs", "Cn", "Co"})  # controls, bidi and zero-width marks: they forge what is read


def plain(text: str, limit: int = NAME_LIMIT) -> str:
    """`text` on one line, without characters that could pose as something else, cut at `limit`."""
    if not (text.isascii() and text.isprintable()):
        text = _SEQUENCES.sub("", text).replace("\t", "    ")
        text = "".join(char for char in text if unicodedata.category(char) not in _DROPPED)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def tail(file: str) -> str:
    """A path's last part, of either kind of slash."""
    return file.replace("\\", "/").rsplit("/", 1)[-1]
