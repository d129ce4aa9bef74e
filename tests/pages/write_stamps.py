"""Writes the version and the repository's owner into every file that repeats them: `python tests/pages/write_stamps.py`.

The version's one place is src/hotkernel/__init__.py, the owner's is the Repository line of pyproject.toml.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from hotkernel import __version__

ROOT = Path(__file__).parents[2]
ORIGINAL = "xinhuagu"  # owns the repository of hotkernel 0.1.1, which is named where credit is given
VERSIONED = ("server.json", "gemini-extension.json", ".claude-plugin/plugin.json", ".claude-plugin/marketplace.json")
OWNED = ("pyproject.toml", "README.md", "README_zh.md", "server.json", "docs/quickstart.md", "docs/faq.md", "docs/releasing.md")
_VERSION = re.compile(r'("version": )"[^"]*"')
_OWNER = re.compile(rf"(io\.github\.|github\.com/|githubusercontent\.com/|marketplace add )(?!{ORIGINAL}/)[\w.-]+(/hotkernel\b)")


def owner() -> str:
    """Who owns the repository; a placeholder, OWNER, until that is known."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = re.fullmatch(r"https://github\.com/([\w.-]+)/hotkernel", project["urls"]["Repository"])
    assert found, "pyproject.toml: Repository is to be https://github.com/<owner>/hotkernel"
    return found[1]


def stamped(name: str) -> str:
    """A file's text with today's version and owner in it."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if name in VERSIONED:
        text = _VERSION.sub(rf'\g<1>"{__version__}"', text)
    return _OWNER.sub(rf"\g<1>{owner()}\g<2>", text)


STAMPED = tuple(dict.fromkeys((*VERSIONED, *OWNED)))

if __name__ == "__main__":
    for name in STAMPED:
        (ROOT / name).write_text(stamped(name), encoding="utf-8")
