"""Completes what is typed in a shell, from the tools' own arguments; runs no tool.

`hotkernel completion SHELL` prints a script for the shell's start file; the script asks `hotkernel completion SHELL -- WORDS`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hotkernel import arguments, tools
from hotkernel.errors import ToolError
from hotkernel.exit_status import REQUIREMENTS
from hotkernel.parameter import Parameter
from hotkernel.tool import ArgumentError, Listed, Tool, unknown

SCRIPTS = {
    "bash": """_hotkernel() {
  local IFS=$'\\n'
  COMPREPLY=($(hotkernel completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -o bashdefault -F _hotkernel hotkernel
""",
    "zsh": """#compdef hotkernel
_hotkernel() {
  local -a found
  found=("${(@f)$(hotkernel completion zsh -- "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [[ -n "${found[1]}" ]]; then _describe hotkernel found; else _files; fi
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _hotkernel hotkernel
""",
    "fish": """function __hotkernel_complete
  set -l words (commandline -opc) (commandline -ct)
  hotkernel completion fish -- $words[2..-1] 2>/dev/null
end
complete -c hotkernel -k -a '(__hotkernel_complete)'
""",
}
WHERE = {
    "bash": 'eval "$(hotkernel completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(hotkernel completion zsh)"   # in ~/.zshrc',
    "fish": "hotkernel completion fish | source   # in ~/.config/fish/config.fish",
}
RESULTS = "results"
_Found = tuple[str, str]  # a word, and what it means


def main(argv: Sequence[str], commands: Sequence[_Found], aliases: dict[str, str], listed: Sequence[Listed]) -> str:
    """What `hotkernel completion` prints: a script, or, after `--`, what may stand in place of the last word."""
    shell, *rest = argv or [""]
    if shell in ("", "-h", "--help"):
        return "hotkernel completion SHELL prints a script that completes hotkernel's commands:\n\n" + "".join(
            f"  {line}\n" for line in WHERE.values())
    if shell not in SCRIPTS:
        raise unknown(f"there is no completion for {shell[:40]!r}", shell, SCRIPTS)
    if rest[:1] != ["--"]:
        if rest:
            raise ArgumentError("hotkernel completion takes the name of a shell alone", fix=f"give {' or '.join(SCRIPTS)}")
        return SCRIPTS[shell]
    return "".join(f"{_written(shell, *each)}\n" for each in candidates(rest[1:] or [""], commands, aliases, listed))


def candidates(words: Sequence[str], commands: Sequence[_Found], aliases: dict[str, str],
               listed: Sequence[Listed]) -> list[_Found]:
    """What may stand in place of the last word; nothing where a file's name may, which the shell knows better."""
    *before, current = words
    if not before:
        found: Iterator[_Found] = iter(commands)
    else:
        try:
            tool = tools.find(aliases.get(before[0], before[0].replace("-", "_")), listed)
        except ToolError:
            return []
        found = _of_tool(tool, before[1:], current)
    return [each for each in found if each[0].startswith(current)]


def _of_tool(tool: Tool, before: Sequence[str], current: str) -> Iterator[_Found]:
    options = {name: each for each in tool.parameters for name in arguments.option_names(each)}
    last = options.get(before[-1]) if before else None
    if last is not None and last.types != ("boolean",):
        yield from _values(last)
    elif current.startswith("-"):
        yield from ((name, each.help) for name, each in options.items())
        yield from arguments.ONLY_HERE.get(tool.name, {}).items()
        yield from (("--json", "print the whole result as JSON"), ("--help", "say more"))
    elif before and before[-1] == "--require":
        yield from ((word, "") for word in REQUIREMENTS)
    else:
        taken = sum(not word.startswith("-") for word in before)
        yield from (each for place in arguments.by_position(tool)[taken:taken + 1] for each in _values(place))


def _values(parameter: Parameter) -> Iterator[_Found]:
    """The words that an argument may be: its choices, or the targets that have records here."""
    yield from ((word, "") for word in parameter.choices)
    if parameter.name == "target" and (results := Path(RESULTS)).is_dir():
        yield from ((folder.name, "") for folder in sorted(results.iterdir()) if folder.is_dir())


def _written(shell: str, word: str, meaning: str) -> str:
    """One candidate as the shell wants it; bash knows no meanings."""
    if shell == "bash" or not meaning:
        return word
    short = " ".join(meaning.split())[:80]
    return f"{word}\t{short}" if shell == "fish" else f"{word.replace(':', chr(92) + ':')}:{short}"
