"""Writes docs/tools.md and docs/clients.md from the code that they describe: `python tests/doors/write_pages.py`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

from hotkernel import arguments, install, tools
from hotkernel.mcp.door import JOB
from hotkernel.parameter import Parameter
from hotkernel.tool import Tool

ROOT = Path(__file__).parents[2]
REPOSITORY = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]["Repository"]
MADE_BY = "<!-- written by tests/doors/write_pages.py; change the code, not this page -->\n"

_TOOLS_HEAD = """# The tools

Every tool is there twice: for an agent over MCP, and in a terminal as `hotkernel NAME`; one that says so is there for
people alone.
Names, arguments, defaults and words are the same; in a terminal `_` is written `-`, required arguments may be given by
position, `--json` prints the whole result, and what follows `--` is passed on to the script.
null means unknown, never zero.
An error says what happened, a code and what to do.

A long tool (marked so) takes `wait_s` over MCP: after that many seconds it answers `running` and a job.
"""

_CLIENTS_HEAD = """# Clients

hotkernel is an MCP server over stdio: a client starts `uvx hotkernel`.
`hotkernel install --client NAME` prints what stands below for one client, for the hotkernel that is installed here;
with `--write` it puts it into the client's file and keeps a copy of what was there before.
Until this version is on PyPI, `uvx hotkernel` starts the original 0.1.1: write
`uvx --from git+{repository} hotkernel` in its place, or take what `hotkernel install` prints.

Set `HOTKERNEL_PYTHON` to the python that has your torch.
Unset, it is the first python on PATH that imports torch, else hotkernel's own, if that does.
{variables}
## Any client

```json
{any}
```

A long call answers within `wait_s` seconds (240 unless told otherwise) and goes on as a job, so no client's time limit
ends a run.
hotkernel runs the code that it is asked to time, with your rights and outside the client's sandbox: allow its tools as
you would allow a shell.
"""

_CLIENTS_TAIL = """## Plugin: the tools and the skill in one

Claude Code:

```
claude plugin marketplace add OWNER/hotkernel
claude plugin install hotkernel@hotkernel
```

It asks for the python that has your torch.
Gemini CLI: `gemini extensions install https://github.com/OWNER/hotkernel`.
Any agent that reads Agent Skills finds the method in `skills/kernel-speedrun/`; over MCP it is the prompt
`kernel-speedrun` and the resource `hotkernel://guide`.

## WSL

A client on Windows starts the server inside WSL with `wsl -e uvx hotkernel`.
A path such as `C:\\work\\k.py` is read as `/mnt/c/work/k.py` where that drive is mounted.

## A server that does not start

- `uvx` is not found: give its whole path (`which uvx`), as clients often have a shorter PATH than your shell.
- The first start downloads the packages: give it a minute (Codex: `startup_timeout_sec`).
- No kernels, no card: call `doctor`; it names what is missing and which variable the client did not pass on.
"""

_VARIABLES = {
    "HOTKERNEL_PYTHON": "the python with your torch and Triton",
    "HOTKERNEL_ROOTS": "folders below which files may be written, separated as in PATH (default: the working folder)",
    "HOTKERNEL_TOOL_DIRS": "more folders to look for nsys, ncu, cuobjdump in",
    "HOTKERNEL_STATE_DIR": "where verdicts, calibrations and locks are kept (default: your state folder)",
    "HOTKERNEL_PASS_ENV": "names of more variables that scripts may see; tokens and keys are kept from them otherwise",
}


def tools_page() -> str:
    """docs/tools.md."""
    shown = [each.load() for each in tools.LISTED]
    index = "".join(f"- [`{each.name}`](#{each.name}): {each.listed.title}\n" for each in [*shown, JOB])
    return f"{MADE_BY}{_TOOLS_HEAD}\n{index}" + "".join(_tool(each) for each in [*shown, JOB])


def clients_page() -> str:
    """docs/clients.md."""
    launch = install.Launch("uvx", ("hotkernel",), {"HOTKERNEL_PYTHON": "/home/me/venv/bin/python"})
    variables = "\n| variable | meaning |\n|---|---|\n" + "".join(f"| `{k}` | {v} |\n" for k, v in _VARIABLES.items())
    plain = json.dumps({"mcpServers": {"hotkernel": launch.entry()}}, indent=2)
    sections = "".join(_client(each, launch) for each in install.CLIENTS)
    head = _CLIENTS_HEAD.format(repository=REPOSITORY, variables=variables, any=plain)
    tail = _CLIENTS_TAIL.replace("OWNER/hotkernel", REPOSITORY.removeprefix("https://github.com/"))
    return f"{MADE_BY}{head}\n{sections}{tail}"


def _client(client: install.Client, launch: install.Launch) -> str:
    own = f"```\n{client.command(launch)}\n```\n\nor " if client.command else ""
    kind = "toml" if client.where.endswith(".toml") else "json"
    link = f"\nOr open this link: `{install.cursor_link(launch)}`\n" if client.name == "cursor" else ""
    shown = f"```{kind}\n{install.snippet(client, launch)}```\n{link}\n"
    return f"## {client.title}\n\n{own}in {client.where}:\n\n{shown}"


def _tool(tool: Tool) -> str:
    hints = tool.listed.hints
    told = [word for word, holds in (("read-only", hints.read_only), ("idempotent", hints.idempotent),
                                     ("may overwrite", hints.destructive), ("runs your code", hints.open_world),
                                     ("long", tool.listed.is_long),
                                     ("in a terminal alone", tool.listed.is_for_people),
                                     ("answers with an image", tool.listed.is_picture))
            if holds]
    head = f"\n## {tool.name}\n\n{tool.listed.title}" + (f" ({', '.join(told)}).\n" if told else ".\n")
    if not tool.parameters:
        return f"{head}\n{tool.text}\n\nNo arguments.\n"
    rows = "".join(_row(each) for each in tool.parameters)
    return f"{head}\n{tool.text}\n\n| argument | in a terminal | type | default | |\n|---|---|---|---|---|\n{rows}"


def _row(each: Parameter) -> str:
    kind = " or ".join(f"`{word}`" for word in each.choices) or " or ".join(w for w in each.types if w != "null")
    default = "required" if each.is_required else _default(each.default)
    others = f" (also `{'`, `'.join(each.aliases)}`)" if each.aliases else ""
    spelled = f"`{arguments.option_names(each)[0]}`"
    return f"| `{each.name}`{others} | {spelled} | {kind} | {default} | {each.help.replace('|', chr(92) + '|')} |\n"


def _default(value: object) -> str:
    return "" if value in (None, "", []) else f"`{value if isinstance(value, str) else json.dumps(value)}`"


PAGES = {"docs/tools.md": tools_page, "docs/clients.md": clients_page}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (ROOT / name).write_text(page(), encoding="utf-8")
