"""Claims about completion: every command, option and choice of the tools, in each shell as it really completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hotkernel import arguments, cli, completion, tools
from hotkernel.errors import ToolError


def words(*typed: str) -> list[str]:
    return [word for word, _ in completion.candidates(typed, cli._commands(tools.LISTED), cli.SHORTER, tools.LISTED)]


def test_the_first_word_is_any_command() -> None:
    assert set(words("")) >= {each.name for each in tools.LISTED} | {"new", "diff", "install", "completion", "help"}
    assert words("ver") == ["verify"]


@pytest.mark.parametrize("listed", tools.LISTED, ids=lambda listed: listed.name)
def test_every_option_of_every_tool_completes(listed) -> None:
    options = [name for each in listed.load().parameters for name in arguments.option_names(each)]

    assert set(words(listed.name, "--")) == {*options, *arguments.ONLY_HERE.get(listed.name, {}), "--json", "--help"}


@pytest.mark.parametrize(("typed", "wanted"), [
    (("roofline", "--dtype", "fp"), ["fp16", "fp8", "fp32", "fp64", "fp4"]),
    (("verify", "a.py", "b.py", "--require", ""), ["faster", "not-slower"]),
    (("profile", "--tool", ""), ["nsys", "ncu"]),
    (("new", "--mix"), ["--mixture"]),
    (("verify", ""), []), (("nothing", ""), []), (("roofline", "--gpu", "h"), []),
])
def test_choices_complete_and_where_a_file_may_stand_the_shell_is_left_alone(typed, wanted) -> None:
    assert words(*typed) == wanted


def test_a_target_completes_to_those_that_have_records_here(tmp_path, monkeypatch) -> None:
    (tmp_path / "results/rmsnorm").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)

    assert words("history", "rm") == ["rmsnorm"]
    assert words("report", "--target", "") == ["rmsnorm"]


def test_another_shell_is_refused_by_name() -> None:
    with pytest.raises(ToolError, match="no completion for 'csh'"):
        completion.main(["csh"], [], {}, tools.LISTED)


ASKS = {
    "bash": "COMP_WORDS=(hotkernel verify a b --require ''); COMP_CWORD=5; _hotkernel; printf '%s\\n' \"${COMPREPLY[@]}\"",
    "zsh": "_describe() { print -l -- $found }; words=(hotkernel verify a b --require ''); CURRENT=6; _hotkernel",
    "fish": "complete -C 'hotkernel verify a b --require '",
}


@pytest.mark.parametrize("shell", ASKS)
def test_a_shell_completes_with_the_script_that_it_is_given(shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    program = tmp_path / "hotkernel"
    program.write_text(f"#!/bin/sh\nexec {sys.executable} -P -m hotkernel.cli \"$@\"\n", encoding="utf-8")
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run([shell, "-c", f"{completion.SCRIPTS[shell]}\n{ASKS[shell]}"], cwd=tmp_path, env=environment,
                          capture_output=True, text=True, timeout=60, check=False)
    found = {line.split()[0] for line in done.stdout.splitlines() if line.strip()}

    # fish puts the folder's files behind them
    assert found - ({"hotkernel"} if shell == "fish" else set()) == {"faster", "not-slower"}, done.stderr
