"""Every command that README, quickstart and tutorial show is run here as it stands, or is named below with the reason."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hotkernel.records import comparisons

ROOT = Path(__file__).parents[2]
RUN = ("docs/quickstart.md", "docs/tutorial.md")  # from top to bottom, each in a folder of its own
READ = ("README.md", "README_zh.md")  # these show nothing that the others do not run, save what is named below
EXIT_OF_VERDICT = {"faster": 0, "inconclusive": 10, "slower": 11, "incorrect": 12, "invalid": 13}  # as `hotkernel --help` says
COMMAND_S = 400
ASKED = 3  # times, where the cores have other work too: asking again goes on with the same test
_CARD = "needs a card"
_REPOSITORY = "fetches the repository from the network; the wheel made of it is run by tests/doors/test_wheel.py"
NOT_RUN = {
    "make demo": "a minute, and a set-up from the network: .github/workflows/ci.yml runs it",
    "make demo && export PATH=$PWD/.venv/bin:$PATH": "the same",
    "export PATH=$PWD/.venv/bin:$PATH": "a clone that make demo has set up",
    "make test": "this is it",
    "uvx --from git+https://github.com/OWNER/hotkernel hotkernel doctor": _REPOSITORY,
    "uvx --from git+https://github.com/OWNER/hotkernel hotkernel --version": _REPOSITORY,
    "uv tool install git+https://github.com/OWNER/hotkernel": _REPOSITORY,
    "pip install git+https://github.com/OWNER/hotkernel": _REPOSITORY,
    "export HOTKERNEL_PYTHON=$HOME/venv/bin/python": "the tests run in the Python that has torch, and set it themselves",
    "$EDITOR softmax_candidate.py": "an editor: the tutorial writes the file",
    "hotkernel calibrate": _CARD,
    "hotkernel roofline --bytes 134217728 --dtype bf16": f"{_CARD}: it is of the first card here",
    "hotkernel profile --tool ncu --cmd python softmax_candidate.py": _CARD,
    "hotkernel disasm triton-cache --kernel softmax": _CARD,
}


def commands_of(name: str) -> list[tuple[str, str]]:
    """Each command of a page's sh blocks with the comment behind it; a here-document belongs to its command."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"^```sh\n(.*?)^```$", (ROOT / name).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        for command in re.findall(r"^[^\n]*<<'END'\n.*?^END$|^[^\n]+$", block, re.DOTALL | re.MULTILINE):
            said, _, comment = command.partition(" # ") if "<<" not in command else (command, "", "")
            found.append((said.strip(), comment.strip()))
    return found


def is_run(command: str) -> bool:
    owner = re.sub(r"github\.com/[\w.-]+/", "github.com/OWNER/", command)
    return owner not in NOT_RUN


def run(command: str, folder: Path, state: Path) -> subprocess.CompletedProcess[str]:
    """As a shell runs it, with `hotkernel` standing for these sources and ID for what the last verify printed."""
    saved = comparisons.newest(state, 1)
    command = re.sub(r"\bID\b", saved[0] if saved else "ID", command)
    start = f"hotkernel() {{ {shlex.quote(sys.executable)} -P -m hotkernel.cli \"$@\"; }}\n"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "HOTKERNEL_STATE_DIR": str(state),
                   "HOTKERNEL_PYTHON": sys.executable, "HOME": str(folder)}
    environment.pop("HOTKERNEL_ROOTS", None)
    return subprocess.run(["bash", "-c", start + command], cwd=folder, env=environment, capture_output=True, text=True,
                          encoding="utf-8", timeout=COMMAND_S, stdin=subprocess.DEVNULL, check=False)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", RUN)
def test_a_pages_commands_do_what_it_says(name: str, tmp_path: Path) -> None:
    folder, state = tmp_path / "work", tmp_path / "state"
    folder.mkdir()
    for command, comment in commands_of(name):
        if not is_run(command):
            continue
        word = (comment.split() or [""])[0].strip(":,")
        for _ in range(ASKED):
            done = run(command, folder, state)
            if word != "faster" or done.returncode != EXIT_OF_VERDICT["inconclusive"]:
                break
        assert done.returncode == EXIT_OF_VERDICT.get(word, 0), f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
        if word in EXIT_OF_VERDICT:
            assert f"verdict: {word}" in done.stdout
    if name == "docs/tutorial.md":
        assert "torch.softmax: one fused pass" in (folder / "LEADERBOARD.md").read_text(encoding="utf-8")


def test_every_verify_on_a_page_says_what_comes_of_it() -> None:
    verifies = [(command, comment) for name in RUN for command, comment in commands_of(name) if " verify " in command]

    assert len(verifies) <= 5, "each takes seconds: keep them few"
    assert [command for command, comment in verifies if (comment.split() or [""])[0].strip(":,") not in EXIT_OF_VERDICT] == []


@pytest.mark.parametrize("name", READ)
def test_a_readme_shows_no_command_that_nothing_runs(name: str) -> None:
    tried = {re.sub(r" --n \d+", "", command) for page in RUN for command, _ in commands_of(page) if is_run(command)}
    shown = [command for command, _ in commands_of(name)]

    assert len(shown) >= 8
    assert [command for command in shown if is_run(command) and command not in tried] == []


def test_every_command_that_is_not_run_is_on_a_page() -> None:
    shown = {re.sub(r"github\.com/[\w.-]+/", "github.com/OWNER/", command)
             for page in (*RUN, *READ) for command, _ in commands_of(page)}

    assert set(NOT_RUN) - shown == set()
