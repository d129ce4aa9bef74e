"""The commands that docs/report.md and docs/capture.md show are commands that the terminal takes."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from hotkernel import arguments, cli, tools
from hotkernel.completion import SCRIPTS

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "report.md").read_text(encoding="utf-8")
PAGES = PAGE + (DOCS / "capture.md").read_text(encoding="utf-8")
SHOWN = re.findall(r"(?:^|run: |`)(hotkernel \w[^`\n#>]*)", PAGES, re.MULTILINE)


@pytest.mark.parametrize("line", sorted(set(SHOWN)))
def test_a_documented_command_is_one_that_the_terminal_takes(line: str) -> None:
    _, name, *rest = shlex.split(line.replace("$(", " ").split("|")[0])
    if name == "completion":
        assert rest[0] in SCRIPTS
        return
    tool = tools.find(cli.SHORTER.get(name, name), tools.LISTED)
    arguments.parse(tool, rest, program=f"hotkernel {name}", places=cli.PLACES.get(name, ()))


def test_the_gate_is_shown() -> None:
    assert any("--require not-slower" in line for line in SHOWN)
    assert len(SHOWN) > 10


def test_every_exit_status_of_the_page_is_one_that_the_help_tells() -> None:
    told = re.findall(r"^\| ([\d, ]+) \|", PAGE, re.MULTILINE)

    for status in re.findall(r"\d+", " ".join(told)):
        assert re.search(rf"\b{status} ", cli.TEXT), status
