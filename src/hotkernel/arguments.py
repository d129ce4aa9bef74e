"""Turns a tool's description into a command line and a command line into arguments; runs nothing."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from hotkernel.exit_status import OF_TOOL, REQUIRE_HELP, REQUIREMENTS
from hotkernel.parameter import Parameter
from hotkernel.tool import ArgumentError, Tool

_REST = "_rest"  # where argparse puts what was given by position
ONLY_HERE = {"verify": {"--require": REQUIRE_HELP.replace("%%", "%")}}  # options that a terminal has and an agent need not


@dataclass(frozen=True)
class CommandLine:
    """What was typed: the tool's arguments, checked, and how the answer is wanted."""

    arguments: dict[str, Any]
    as_json: bool
    require: str | None = None  # what verify's verdict must be for an exit status of 0


def parse(tool: Tool, argv: Sequence[str], *, program: str, places: Sequence[str] = ()) -> CommandLine:
    """Read what was typed after the tool's name; ArgumentError when it makes no sense, SystemExit(0) after --help.

    `places` are the arguments that may be typed without their names, where this command has others than the tool.
    """
    typed, after_dashes = _split(list(argv))
    placed = tuple(each for name in places for each in tool.parameters if each.name == name) or by_position(tool)
    options = vars(_parser(tool, program, placed).parse_intermixed_args([_dashed(word) for word in typed]))
    as_json, require = options.pop("json"), options.pop("require", None)
    rest = options.pop(_REST)
    free = [each for each in placed if each.name not in options]
    if len(rest) > len(free):
        raise ArgumentError(f"{program}: too many arguments: {' '.join(rest[len(free):])}",
                            fix=f"see {program} --help")
    options.update({each.name: value for each, value in zip(free, rest, strict=False)})
    if after_dashes:
        options.update(_passed_on(tool, after_dashes, program))
    return CommandLine(tool.read(options), as_json, require)


def by_position(tool: Tool) -> tuple[Parameter, ...]:
    """The arguments that may be typed without their names: the required ones, or the first where none is required."""
    return tool.required or tuple(each for each in tool.parameters[:1] if "string" in each.types)


def option_names(parameter: Parameter) -> list[str]:
    """How an argument is written in a terminal: its own name first, then every other name it has; `_` does for `-`."""
    names = [parameter.name.rstrip("_"), *parameter.aliases]
    if parameter.name == "out_dir":
        names.append("out")
    return [f"--{name.replace('_', '-')}" for name in dict.fromkeys(names)]


class _Parser(argparse.ArgumentParser):
    """Raises instead of printing its usage and leaving."""

    def error(self, message: str) -> NoReturn:
        raise ArgumentError(f"{self.prog}: {message}", fix=f"see {self.prog} --help")


def _parser(tool: Tool, program: str, placed: Sequence[Parameter] | None = None) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program,
        usage=f"{program} {''.join(f'{_placed(each)} ' for each in placed or by_position(tool))}[options]",
        description=tool.text,
        epilog=OF_TOOL.get(tool.name),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(_REST, nargs="*", help=argparse.SUPPRESS)
    for each in tool.parameters:
        _add(parser, each)
    if tool.name in ONLY_HERE:
        parser.add_argument("--require", choices=REQUIREMENTS, help=REQUIRE_HELP)
    parser.add_argument("--json", action="store_true", help="print the whole result as JSON")
    return parser


def _placed(parameter: Parameter) -> str:
    name = parameter.name.rstrip("_").upper()
    return name if parameter.is_required else f"[{name}]"


def _add(parser: argparse.ArgumentParser, parameter: Parameter) -> None:
    names = option_names(parameter)
    # dest under the public name; absent when not typed, so that the tool's own default holds
    common: dict[str, Any] = {"dest": parameter.name, "default": argparse.SUPPRESS, "help": _help(parameter)}
    if parameter.types == ("boolean",):
        parser.add_argument(*names, action=argparse.BooleanOptionalAction, **common)
    elif "array" in parameter.types:
        parser.add_argument(*names, nargs="+", action="extend", metavar=_metavar(parameter), **common)
    else:
        parser.add_argument(*names, metavar=_metavar(parameter), **common)


def _help(parameter: Parameter) -> str:
    text = parameter.help.replace("%", "%%")
    if parameter.is_required:
        return f"{text} (required)"
    if parameter.default in (None, "", [], False):
        return text
    shown = parameter.default if isinstance(parameter.default, str) else json.dumps(parameter.default)
    return f"{text} (default: {str(shown).replace('%', '%%')})"


def _metavar(parameter: Parameter) -> str:
    if parameter.choices:
        return "{" + ",".join(parameter.choices) + "}"
    words = {"integer": "N", "number": "X", "object": "JSON"}
    return next((words[word] for word in parameter.types if word in words and "string" not in parameter.types), "TEXT")


def _dashed(word: str) -> str:
    """`--out_dir=x` as `--out-dir=x`: people type the name that the agent's door has."""
    name, equals, value = word.partition("=")
    return f"{name.replace('_', '-')}{equals}{value}" if name.startswith("--") else word


def _split(argv: list[str]) -> tuple[list[str], list[str]]:
    if "--" not in argv:
        return argv, []
    cut = argv.index("--")
    return argv[:cut], argv[cut + 1 :]


def _passed_on(tool: Tool, words: list[str], program: str) -> dict[str, Any]:
    """What stands after `--`: the command of `profile`, the script's own arguments elsewhere."""
    for name in ("cmd", "args"):
        for each in tool.parameters:
            if each.name == name:
                return {name: words if "array" in each.types else shlex.join(words)}
    raise ArgumentError(f"{program}: nothing can follow --", fix=f"see {program} --help")
