"""Says, or writes on demand, how a client is told of hotkernel; knows files and formats, starts no client."""

from __future__ import annotations

import argparse
import base64
import json
import os
import shlex
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError

# Codex hands its servers HOME, LANG and PATH alone; what CUDA needs must be named.
CODEX_VARIABLES = ("CUDA_HOME", "CUDA_PATH", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "NVIDIA_VISIBLE_DEVICES",
                   "TRITON_CACHE_DIR", "TORCH_CUDA_ARCH_LIST", "VIRTUAL_ENV", "CONDA_PREFIX", "HOTKERNEL_ROOTS",
                   "HOTKERNEL_STATE_DIR", "HOTKERNEL_TOOL_DIRS")
START_S = 60  # the first start of uvx downloads the packages
CALL_S = 900


@dataclass(frozen=True)
class Launch:
    """How a client starts the server."""

    command: str
    args: tuple[str, ...]
    env: Mapping[str, str]

    def entry(self, **more: Any) -> dict[str, Any]:
        """As most clients write it in JSON."""
        variables = {"env": dict(self.env)} if self.env else {}
        return {**more, "command": self.command, "args": list(self.args), **variables}


@dataclass(frozen=True)
class Client:
    """One client: where its configuration lies, and what hotkernel's part of it is."""

    name: str
    title: str
    where: str  # its file, in words
    path: Callable[[], Path]
    key: str  # under which the file lists its servers; TOML where the file ends so
    entry: Callable[[Launch], dict[str, Any]]
    command: Callable[[Launch], str] | None = None  # the client's own way, in a shell


def _home(*parts: str) -> Callable[[], Path]:
    return lambda: Path.home().joinpath(*parts)


def _here(*parts: str) -> Callable[[], Path]:
    return lambda: Path.cwd().joinpath(*parts)


def _claude_desktop() -> Path:
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Application Support"
    else:
        base = Path(os.environ.get("APPDATA") or Path.home() / ".config")
    return base / "Claude" / "claude_desktop_config.json"


def _claude_add(launch: Launch) -> str:
    # the name comes first: an option that takes several values swallows it otherwise
    variables = "".join(f" -e {shlex.quote(f'{name}={value}')}" for name, value in launch.env.items())
    return f"claude mcp add hotkernel{variables} -- {_line(launch)}"


def _codex_add(launch: Launch) -> str:
    variables = "".join(f" --env {shlex.quote(f'{name}={value}')}" for name, value in launch.env.items())
    return f"codex mcp add hotkernel{variables} -- {_line(launch)}"


def _code_add(launch: Launch) -> str:
    return f"code --add-mcp {shlex.quote(json.dumps({'name': 'hotkernel', **launch.entry()}))}"


def _codex_entry(launch: Launch) -> dict[str, Any]:
    return {**launch.entry(), "env_vars": list(CODEX_VARIABLES), "startup_timeout_sec": START_S,
            "tool_timeout_sec": CALL_S}


def cursor_link(launch: Launch) -> str:
    """A link that a browser hands to Cursor."""
    config = base64.b64encode(json.dumps(launch.entry()).encode()).decode("ascii")
    return f"cursor://anysphere.cursor-deeplink/mcp/install?name=hotkernel&config={config}"


CLIENTS = (
    Client("claude-code", "Claude Code", ".mcp.json in the project", _here(".mcp.json"), "mcpServers", Launch.entry,
           _claude_add),
    Client("claude-desktop", "Claude Desktop", "claude_desktop_config.json (Settings, Developer, Edit Config)",
           _claude_desktop, "mcpServers", Launch.entry),
    Client("codex", "Codex", "~/.codex/config.toml", _home(".codex", "config.toml"), "mcp_servers", _codex_entry,
           _codex_add),
    Client("cursor", "Cursor", "~/.cursor/mcp.json", _home(".cursor", "mcp.json"), "mcpServers", Launch.entry),
    Client("gemini", "Gemini CLI", "~/.gemini/settings.json", _home(".gemini", "settings.json"), "mcpServers",
           lambda launch: launch.entry(timeout=CALL_S * 1000)),
    Client("vscode", "VS Code", ".vscode/mcp.json in the project", _here(".vscode", "mcp.json"), "servers",
           lambda launch: launch.entry(type="stdio"), _code_add),
    Client("windsurf", "Windsurf", "~/.codeium/windsurf/mcp_config.json",
           _home(".codeium", "windsurf", "mcp_config.json"), "mcpServers", Launch.entry),
)


def main(argv: Sequence[str]) -> int:
    """Say how to add hotkernel to a client, or do it with --write."""
    parser = argparse.ArgumentParser(prog="hotkernel install", description="Add hotkernel to a client.")
    parser.add_argument("--client", choices=[each.name for each in CLIENTS], help="which client (default: all)")
    parser.add_argument("--python", default=os.environ.get("HOTKERNEL_PYTHON", ""),
                        help="the python that has your torch (default: HOTKERNEL_PYTHON, where it is set)")
    parser.add_argument("--here", action="store_true", help="start this very installation, not by uvx")
    parser.add_argument("--write", action="store_true", help="write the client's configuration file")
    given = parser.parse_args(argv)
    launch = _launch(given.python, given.here)
    chosen = [each for each in CLIENTS if given.client in (None, each.name)]
    if given.write and not given.client:
        parser.error("--write needs --client")
    for client in chosen:
        print(write(client, launch) if given.write else advice(client, launch))
    return 0


def advice(client: Client, launch: Launch) -> str:
    """What to run, or what to write where."""
    own = f"run:\n  {client.command(launch)}\nor add " if client.command else "add "
    return f"{client.title}: {own}to {client.path()}:\n{snippet(client, launch)}"


def write(client: Client, launch: Launch) -> str:
    """Add hotkernel to the client's file and leave the rest of it as it is; ToolError where that cannot be done."""
    from hotkernel.records.files import write_whole

    path = client.path()
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    known = _read(client, path, text)
    servers = known.get(client.key, {})
    if not isinstance(servers, dict):
        raise _by_hand(client, launch, f"{path} holds no table {client.key}")
    if servers.get("hotkernel") == client.entry(launch):
        return f"{path} has hotkernel already"
    if "hotkernel" in servers:
        raise _by_hand(client, launch, f"{path} has another hotkernel already")
    if path.suffix == ".toml":
        whole = f"{text.rstrip()}\n\n{snippet(client, launch)}".lstrip()
    else:
        whole = json.dumps({**known, client.key: {**servers, "hotkernel": client.entry(launch)}}, indent=2) + "\n"
    if text:
        write_whole(path.with_name(f"{path.name}.before-hotkernel"), text)
    write_whole(path, whole)
    return f"{path} has hotkernel now; start {client.title} again"


def _read(client: Client, path: Path, text: str) -> dict[str, Any]:
    try:
        found = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text or "{}")
    except ValueError as error:
        raise ToolError(f"{path} cannot be read: {error}",
                        fix=f"add hotkernel by hand; hotkernel install --client {client.name} prints it") from None
    return found if isinstance(found, dict) else {}


def _by_hand(client: Client, launch: Launch, message: str) -> ToolError:
    return ToolError(message, fix="put this in its place by hand", detail=snippet(client, launch))


def snippet(client: Client, launch: Launch) -> str:
    entry = client.entry(launch)
    if client.path().suffix != ".toml":
        return json.dumps({client.key: {"hotkernel": entry}}, indent=2) + "\n"
    plain = {name: value for name, value in entry.items() if not isinstance(value, dict)}
    lines = [f"[{client.key}.hotkernel]", *(f"{name} = {json.dumps(value)}" for name, value in plain.items())]
    for name, table in entry.items():
        if isinstance(table, dict):
            lines += [f"[{client.key}.hotkernel.{name}]"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    return "\n".join(lines) + "\n"


def _launch(python: str, here: bool) -> Launch:
    variables = {"HOTKERNEL_PYTHON": python} if python else {}
    by_uvx = None if here else uvx_arguments(_direct_url())
    if by_uvx is None:
        return Launch(sys.executable, ("-P", "-m", "hotkernel.cli"), variables)
    return Launch("uvx", by_uvx, variables)


def uvx_arguments(direct_url: str | None) -> tuple[str, ...] | None:
    """What uvx is given to start what is installed here again; None for what lies on this machine alone.

    `direct_url` is the text of direct_url.json, which an installer writes for all that comes from no registry (PEP 610).
    """
    if direct_url is None:
        return ("hotkernel",)
    origin = json.loads(direct_url)
    if "vcs_info" not in origin:
        return None
    revision = origin["vcs_info"].get("requested_revision")
    return ("--from", f"{origin['vcs_info']['vcs']}+{origin['url']}{f'@{revision}' if revision else ''}", "hotkernel")


def _direct_url() -> str | None:
    from importlib import metadata

    try:
        files = metadata.files("hotkernel") or ()
    except metadata.PackageNotFoundError:  # the sources themselves
        return None
    return next((file.read_text(encoding="utf-8") for file in files if file.name == "direct_url.json"), None)


def _line(launch: Launch) -> str:
    return " ".join(shlex.quote(word) for word in (launch.command, *launch.args))

