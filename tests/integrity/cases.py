"""The cases of tests/cheats and tests/honest as their first lines describe them; judges nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from hotkernel.schema.verdict import VerdictKind

TESTS = Path(__file__).parents[1]
TARGETS = Path(__file__).parent / "targets"
_LINE = re.compile(r"# (\w+): (.*)")


@dataclass(frozen=True)
class Case:
    """One candidate with what is expected of it."""

    path: Path
    is_cheat: bool
    category: str
    needs: frozenset[str]  # torch, cuda, triton, compiler, multi-gpu, host (outputs in its memory); empty for none
    target: str  # a baseline of tests/integrity/targets

    @property
    def name(self) -> str:
        return self.path.stem

    @property
    def runs_on_cpu(self) -> bool:
        return not self.needs - {"torch", "host"}

    @property
    def runs_on_card(self) -> bool:
        return "host" not in self.needs

    def passes(self, verdict: VerdictKind) -> bool:
        """A cheat passes unless it is called faster; an honest candidate unless it is refused."""
        if self.is_cheat:
            return verdict is not VerdictKind.FASTER
        return verdict not in (VerdictKind.INCORRECT, VerdictKind.INVALID)


def all_cases() -> list[Case]:
    """Every case, cheats first, each kind by name."""
    return [_read(path, is_cheat=folder == "cheats") for folder in ("cheats", "honest")
            for path in sorted((TESTS / folder).glob("*.py"))]


def _read(path: Path, *, is_cheat: bool) -> Case:
    said = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        found = _LINE.fullmatch(line)
        if found:
            said[found[1]] = found[2]
        elif not line.startswith("#"):
            break
    return Case(path, is_cheat, said["category"], frozenset(said["needs"].split()) - {"none"},
                said["target"].partition(",")[0].strip())
