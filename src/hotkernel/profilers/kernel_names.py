"""Makes kernel names fit to be shown: cleaned, cut, shortened; a name is data, and is never read as anything else."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable

NAME_LIMIT = 200
SHORT_LIMIT = 80
UNNAMED = "(unnamed launch)"

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
# Control, format (bidi, zero-width), surrogate and unassigned characters can forge what a terminal or a model reads.
_DROPPED = frozenset({"Cc", "Cf", "Cs", "Cn", "Co"})
_OPEN, _CLOSE = "<([{", ">)]}"
_NOISE = re.compile(r"\((?:int|bool|unsigned int|long|anonymous namespace)\)(?:::)?|<unnamed>::|at::native::|c10::|\s")
# ncu cuts `<unnamed>::f` to `unnamed>::f`, among template arguments too (2025.3 on Linux, 2026.1 on Windows)
_UNNAMED_SPACE = re.compile(r"\(anonymous namespace\)::|<?\bunnamed>::")
# So many libraries call their kernels this that the name says nothing without what stands before it.
_BARE = frozenset({"kernel", "Kernel", "Kernel2", "device_kernel", "operator()", "run", "_kernel_agent"})


def clean(text: str) -> str:
    """`text` on one line, without characters that could pose as something else."""
    if text.isascii() and text.isprintable():
        return text
    text = re.sub(r"\s+", " ", _ANSI.sub("", text))
    return "".join(char for char in text if unicodedata.category(char) not in _DROPPED)


def cut(text: str, limit: int = NAME_LIMIT) -> str:
    """At most `limit` characters of cleaned `text`, the loss marked."""
    text = clean(text).strip()
    return text if len(text) <= limit else text[: limit - 1] + "…"


def short(name: str) -> str:
    """The function's own name: no return type, template arguments, parameters or namespaces."""
    words = _outside_brackets(clean(name)).split()
    while len(words) > 1 and words[-1] in ("const", "&", "&&", "..."):
        words.pop()
    parts = [part for part in (words[-1] if words else "").split("::") if part]
    if not parts:
        return cut(name, SHORT_LIMIT) or UNNAMED
    kept = parts[-2:] if parts[-1] in _BARE else parts[-1:]
    return cut("::".join(kept), SHORT_LIMIT)


def shorts(names: Iterable[str]) -> dict[str, str]:
    """A short name for each of `names`; where shortened names collide, a piece of the template arguments is added."""
    full = list(dict.fromkeys(names))
    chosen = {name: short(name) for name in full}
    for attempt in (_with_arguments, _numbered):
        counts = Counter(chosen.values())
        seen: Counter[str] = Counter()
        for name in full:
            brief = chosen[name]
            if counts[brief] > 1:
                seen[brief] += 1
                chosen[name] = attempt(name, brief, seen[brief])
    return chosen


def _outside_brackets(name: str) -> str:
    """What stands outside brackets, up to the parameter list; a stray closing bracket drops what is before it."""
    text = _UNNAMED_SPACE.sub("", name).replace("operator()", "operator\0")
    kept: list[str] = []
    open_brackets: list[str] = []
    for char in text:
        if char in _OPEN:
            if not open_brackets and char == "(" and "".join(kept).strip():
                break  # the parameters: what follows is qualifiers
            open_brackets.append(char)
        elif char in _CLOSE:
            if not open_brackets:
                kept.clear()  # ncu on Windows cuts `<unnamed>::f` to `unnamed>::f`
            elif open_brackets[-1] == _OPEN[_CLOSE.index(char)]:
                open_brackets.pop()  # ncu's lambdas hold closing brackets that nothing opened
        elif not open_brackets:
            kept.append(char)
    return "".join(kept).replace("operator\0", "operator()")


def _with_arguments(name: str, brief: str, nth: int) -> str:
    """`brief` with the start of its template arguments, as far as they go."""
    del nth
    at = clean(name).find(brief.rsplit("::", 1)[-1] + "<")
    if at < 0:
        return brief
    arguments = clean(name)[at + len(brief.rsplit("::", 1)[-1]) + 1 :]
    arguments = _NOISE.sub("", arguments)
    return f"{brief}<{cut(arguments, 32).rstrip('>')}>" if arguments else brief


def _numbered(name: str, brief: str, nth: int) -> str:
    del name
    return brief if nth == 1 else f"{brief} #{nth}"
