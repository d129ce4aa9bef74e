"""Makes any text harmless in one cell of a Markdown table; knows nothing of what it says."""

from __future__ import annotations

import re
import unicodedata
from urllib.parse import quote

from hotkernel.records.figures import UNKNOWN

_MEANINGS = str.maketrans({
    "&": "&amp;", "<": "&lt;", ">": "&gt;", "\\": "&#92;", "|": r"\|", "`": r"\`", "*": r"\*", "[": r"\[", "]": r"\]",
    "~": r"\~", "$": r"\$", "@": "&#64;",
})
_EDGE_UNDERSCORE = re.compile(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")  # inside a word it means nothing
_ADDRESS = re.compile(r"(?i)(?<=[a-z]):(?=//)|(?<=www)\.")  # would become a link by itself


def plain(text: str, limit: int) -> str:
    """`text` as one line of at most `limit` characters, without control, bidirectional and zero-width characters."""
    kept = "".join(" " if character.isspace() else character for character in text[: 50 * limit])
    kept = "".join(character for character in kept if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co"))
    line = " ".join(kept.split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"


def cell(text: str | None, limit: int) -> str:
    """`text` as a table's cell says it: cut, cleaned, and nothing in it means anything to Markdown or HTML."""
    return escaped(plain(text or "", limit)) or UNKNOWN


def link(text: str, address: str) -> str:
    """A link whose text is a cell already; the address is a path below the file that holds it."""
    return f"[{text}]({quote(address, errors='surrogateescape')})"


def table(titles: tuple[str, ...], rows: list[str]) -> list[str]:
    """A table's lines; each row is a line already."""
    return [row(titles), "|" + "---|" * len(titles), *rows]


def row(cells: tuple[str, ...]) -> str:
    """One line of a table; the cells are escaped already."""
    return "| " + " | ".join(cells) + " |"


def escaped(line: str) -> str:
    """`line` with every character that Markdown, a table or HTML would act on written so that it stands for itself."""
    line = _EDGE_UNDERSCORE.sub(r"\\_", line.translate(_MEANINGS))
    return _ADDRESS.sub(lambda found: f"&#{ord(found[0])};", line)
