"""How long the MCP server takes to start: from its process to its answer to `initialize`, ours and the original's.

    python benchmarks/mcp_start.py [--original WHEEL_OR_FOLDER] [--runs 5]

The client is a few lines of JSON over pipes, no SDK. Both servers run in this Python, with the same SDK, by the function
that their installed command calls, in turns; one run of each ahead of the counted ones fills the caches of the disk. It
says how busy the machine was and keeps nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[1] / "src"
LIMIT_S = 60.0  # of one start
OURS = "import sys; from hotkernel.cli import main; sys.exit(main())"
ORIGINAL = "import sys; from hotkernel.server import main; sys.exit(main())"
INITIALIZE = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
    "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "mcp_start", "version": "0"}}}


def start(code: str, sources: Path, folder: Path) -> tuple[float, str]:
    """Milliseconds from starting a server to its answer, and who it says it is; RuntimeError where it does not answer."""
    path = os.pathsep.join(filter(None, (str(sources), os.environ.get("PYTHONPATH", ""))))
    variables = {**os.environ, "PYTHONPATH": path, "HOTKERNEL_STATE_DIR": str(folder / ".state")}
    began = time.perf_counter()
    with subprocess.Popen([sys.executable, "-P", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, env=variables, cwd=folder) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        limit = threading.Timer(LIMIT_S, server.kill)
        limit.start()
        try:
            with contextlib.suppress(BrokenPipeError):  # a server that has died is told by its missing answer
                server.stdin.write(json.dumps(INITIALIZE).encode() + b"\n")
                server.stdin.flush()
            line = server.stdout.readline()
            took_ms = 1e3 * (time.perf_counter() - began)
        finally:
            limit.cancel()
            server.kill()
    if not line:
        raise RuntimeError(f"the server did not answer: {code} with {sources}")
    who = json.loads(line)["result"]["serverInfo"]
    return took_ms, f"{who['name']} {who['version']}"


@contextlib.contextmanager
def unpacked(given: Path) -> Iterator[Path]:
    """A folder that holds the original's package: `given` itself, or what the wheel `given` holds."""
    if given.is_dir():
        yield given.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="mcp_start_") as folder, zipfile.ZipFile(given) as wheel:
        wheel.extractall(folder)
        yield Path(folder)


def measure(sides: dict[str, tuple[str, Path]], runs: int) -> tuple[dict[str, list[float]], dict[str, str]]:
    """The times of each side, in turns, and what each calls itself."""
    times: dict[str, list[float]] = {side: [] for side in sides}
    names: dict[str, str] = {}
    with tempfile.TemporaryDirectory(prefix="mcp_start_") as folder:
        for number in range(runs + 1):
            for side, (code, sources) in sides.items():
                took_ms, names[side] = start(code, sources, Path(folder))
                if number:
                    times[side].append(took_ms)
    return times, names


def head() -> str:
    """When, on what, and how busy that was."""
    processors = os.cpu_count() or 1
    load = os.getloadavg()[0]
    busy = f"busy with other work: load {load:.1f}" if load > processors / 4 else f"quiet: load {load:.1f}"
    return (f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC, {processors} CPUs, Python {platform.python_version()}, "
            f"mcp {metadata.version('mcp')}, {platform.system()} {platform.machine()}; before it the machine was {busy}")


def main() -> int:
    """Read the command line, measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--original", type=Path, help="the wheel of hotkernel 0.1.1, or a folder that holds it unpacked")
    parser.add_argument("--runs", type=int, default=5, help="starts of each server that count")
    given = parser.parse_args()
    print(head())
    with contextlib.ExitStack() as stack:
        sides = {"ours": (OURS, SOURCES)}
        if given.original:
            sides["original"] = (ORIGINAL, stack.enter_context(unpacked(given.original)))
        times, names = measure(sides, max(1, given.runs))
    for side, values in times.items():
        each = ", ".join(f"{value:.0f}" for value in values)
        print(f"{side:8} ({names[side]}): median {statistics.median(values):.0f} ms from process to answer; all: {each}")
    if "original" in times:
        ratio = statistics.median(times["ours"]) / statistics.median(times["original"])
        print(f"ours takes {ratio:.2f} times as long as the original")
    return 0


if __name__ == "__main__":
    sys.exit(main())
