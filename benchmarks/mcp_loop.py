"""A whole loop through the agent's door alone, written down as Markdown: what an MCP client asks, and what it is told.

    python benchmarks/mcp_loop.py --out docs/mcp-loop.md [--cpu]   (in a Python that has torch, Triton, mcp and platformdirs)

The client is the official SDK's, the server a child of it over stdio. The rewrite is written by nobody but examples/. The
exit status is 0 only if the last verify said faster and the leaderboard shows both records.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

import anyio
from mcp import Client, StdioServerParameters

TOLD_LINES, STEP_LINES, LINE_CHARACTERS = 10, 15, 170
LIMIT_S = 900.0
NEEDED = frozenset({"new_target", "verify", "record"})  # the loop ends where one of these fails; of the others it is told
DTYPES = {"torch.bfloat16": "bf16", "torch.float16": "fp16", "torch.float32": "fp32"}
VERDICT = ("interval_99", "baseline.mean_ms", "candidate.mean_ms", "ceiling_share_pct", "assurance", "tries", "seconds")


@dataclass(frozen=True)
class Loop:
    """What is made faster: a function, its shapes, and the rewrite that the agent comes up with."""

    folder: Path
    target: str
    call: dict[str, Any]
    pairs: dict[str, Any]  # for the last verify: the untouched candidate has 3 in any case
    note: str

    @property
    def baseline(self) -> str:
        return f"{self.target}_baseline.py"

    @property
    def candidate(self) -> str:
        return f"{self.target}_candidate.py"


CARD = Loop(ROOT / "examples/01_rmsnorm", "rmsnorm", {"shape": "4096x8192", "extra": ["w:8192"]}, {},
            "one Triton program a row, one pass over memory")
CPU = Loop(ROOT / "examples/04_layernorm_cpu", "layernorm",
           {"shape": "256x1024", "dtype": "fp32", "extra": ["w:1024", "b:1024"], "device": "cpu"}, {"n": 3},
           "PyTorch's fused kernel, one pass over memory")


@dataclass
class Diary:
    """The client, and what was said so far."""

    client: Client
    folder: Path
    steps: list[str] = field(default_factory=list)
    progress: int = 0
    calls_s: float = 0.0

    async def call(self, tool: str, arguments: dict[str, Any], shown: Sequence[str], why: str) -> dict[str, Any]:
        """Call a tool, wait for its job where it goes on, write both down; RuntimeError where the tool fails."""
        messages: list[str] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
            messages.append(message or "")

        began = time.perf_counter()
        answer = await self.client.call_tool(tool, arguments, progress_callback=hear)
        found = dict(answer.structured_content or {})
        while found.get("status") == "running" and "job" in found:
            answer = await self.client.call_tool("job", {"action": "wait", "id": found["job"]}, progress_callback=hear)
            found = dict(answer.structured_content or {})
        found = found.get("result") or found
        took_s = time.perf_counter() - began
        told = "\n".join(getattr(block, "text", f"({block.type})") for block in answer.content)
        self.progress += len(messages)
        self.calls_s += took_s
        self._write(f"{tool}: {why}", f"{tool}({json.dumps(arguments)})", told, parts(found, shown, told), took_s, messages)
        if answer.is_error and tool in NEEDED:
            raise RuntimeError(f"{tool} failed: {told}")
        return {} if answer.is_error else found

    async def read(self, uri: str, why: str) -> str:
        """Read a resource and write it down."""
        began = time.perf_counter()
        answer = await self.client.read_resource(uri)
        text = "\n".join(getattr(each, "text", "") for each in answer.contents)
        took_s = time.perf_counter() - began
        self.calls_s += took_s
        self._write(f"resource: {why}", f"resources/read {uri}", text, [], took_s, [], LINE_CHARACTERS * 3, STEP_LINES)
        return text

    def remark(self, title: str, text: str) -> None:
        """A step of the agent's own, outside the door."""
        self.steps.append(f"## {len(self.steps) + 1}. {title}\n\n{text}\n")
        print(f"{len(self.steps):2}. {title}", flush=True)

    def _write(self, title: str, asked: str, told: str, lines: list[str], took_s: float, messages: list[str],
               width: int = LINE_CHARACTERS, most: int = TOLD_LINES) -> None:
        said = [line for line in told.splitlines() if line.strip()]
        left_out = [f"({len(said) - most + 1} more lines)"] if len(said) > most else []
        said = said[:most - len(left_out)] + left_out
        heard = f", {len(messages)} progress messages, the last `{self.plain(messages[-1])}`" if messages else ""
        body = [cut(self.plain(line), width) for line in said]
        body += [cut(self.plain(line), width) for line in lines[:STEP_LINES - len(said)]]
        self.remark(title, f"{took_s:.2f} s{heard}\n\n```\n→ {self.plain(asked)}\n\n" + "\n".join(body) + "\n```")

    def plain(self, text: str) -> str:
        """`text` without the places of this machine."""
        for path in dict.fromkeys((str(self.folder.resolve()), str(self.folder))):
            text = text.replace(path, "…")
        for python in dict.fromkeys((os.environ.get("HOTKERNEL_PYTHON", sys.executable), sys.executable)):
            text = text.replace(python, "python")
        return text.replace(str(ROOT), "hotkernel")


def parts(found: dict[str, Any], shown: Sequence[str], told: str) -> list[str]:
    """The named parts of an answer, one a line, but for those that it does not have or that its text tells."""
    lines = []
    for path in shown:
        value: Any = found
        for name in path.split("."):
            if isinstance(value, list):
                value = value[int(name)] if name.isdigit() and int(name) < len(value) else None
            else:
                value = value.get(name) if isinstance(value, dict) else None
        if value is not None and f"\n{path}: " not in told:
            lines.append(f"  {path}: {json.dumps(value, ensure_ascii=False)}")
    return lines


def cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[:width - 1] + "…"


async def look(diary: Diary, loop: Loop, on_card: bool) -> None:
    """What is there, the target, and where its baseline stands."""
    made = {"target": loop.target, "from_": f"./mykernels.py:{loop.target}", **loop.call, "out_dir": "."}
    await diary.call("gpu_info", {}, ("platform", "reason", "gpus.0.name", "gpus.0.power_limit_w", "gpus.0.state.sm_clock_mhz",
                                      "gpus.0.state.processes"), "what card is here")
    await diary.call("new_target", made, ("files", "inputs", "output", "device", "candidate_is_copy", "next"),
                     "the function becomes a target")
    timed = await diary.call("bench", {"script": loop.baseline, "n": 2},
                             ("dtype", "all_ok", "roofline_inputs"), "how long the baseline says it takes")
    await diary.call("torch_trace", {"script": loop.baseline, "top": 5},
                     ("kernels.0", "kernels.1"), "where its time goes")
    moved = work_of(timed)
    if on_card and moved:
        await diary.call("roofline", moved, ("bound", "attainable_ms", "attainable_ms_measured", "peak_bandwidth_gbps"),
                         "how fast it could be")


def work_of(timed: dict[str, Any]) -> dict[str, Any]:
    """What roofline is asked, from what bench answered; empty where it says no bytes."""
    given = timed.get("roofline_inputs") or {}
    moved = given.get("min_bytes") or given.get("bytes")
    if moved is None:
        return {}
    flops = {} if given.get("flops") is None else {"flops": given["flops"]}
    return {"bytes": moved, **flops, "dtype": DTYPES.get(timed.get("dtype") or "", "bf16")}


async def improve(diary: Diary, loop: Loop, on_card: bool) -> tuple[bool, str]:
    """Judge the copy, rewrite it, judge again, keep both; whether the rewrite is faster, and the board."""
    sides = {"candidate": loop.candidate, "baseline": loop.baseline}
    first = await diary.call("verify", {**sides, "n": 3}, VERDICT, "the untouched candidate, which cannot be faster")
    text = (loop.folder / loop.candidate).read_text(encoding="utf-8")
    (diary.folder / loop.candidate).write_text(text, encoding="utf-8")
    code = text[text.index('"""'):text.index("if __name__")].rstrip()
    diary.remark(f"The agent writes {loop.candidate}", f"```python\n{code}\n```")
    second = await diary.call("verify", {**sides, **loop.pairs}, VERDICT, "the rewrite")
    if on_card:
        await diary.call("bench", {"script": loop.candidate, "n": 1, "warmup": 0}, ("all_ok", "roofline_inputs"),
                         "one plain run, which leaves the compiled kernel in Triton's cache")
        await diary.call("disasm", {"target": "triton-cache", "kernel": loop.target, "max_lines": 40},
                         ("findings.0.text", "findings.1.text", "kernels.0.name", "kernels.0.registers", "kernels.0.spill_stores",
                          "kernels.0.global_loads", "made_by"), "what the compiler made of it")
    for found, note in ((first, "untouched copy of the baseline"), (second, loop.note)):
        await diary.call("record", {"target": loop.target, "verify_result": found["id"], "note": note, "who": "mcp_loop.py"},
                         ("decision", "advice", "log", "previous_best"), f"the verdict {found.get('verdict')}, by its id")
    board = await diary.read("hotkernel://leaderboard", "the board as it stands")
    rows = [line for line in board.splitlines() if line.startswith("|") and "mcp_loop.py" in line]
    print(f"verdicts: {first.get('verdict')}, then {second.get('verdict')}; {len(rows)} rows on the board", flush=True)
    return first.get("verdict") != "faster" and second.get("verdict") == "faster" and len(rows) == 2, board


def versions(client: Client, took_s: float, diary: Diary, connect_s: float) -> str:
    """The head of the page: with what, on what, and how long."""
    server = client.server_info
    python = os.environ.get("HOTKERNEL_PYTHON", sys.executable)
    asked = ("import importlib.metadata as m, json; have = {d.metadata['Name'] for d in m.distributions()}; "
             "print(json.dumps({n: m.version(n) for n in ('torch', 'triton') if n in have}))")
    found = json.loads(subprocess.run([python, "-c", asked], capture_output=True, text=True, timeout=60, check=True).stdout)
    libraries = ", ".join(f"{name} {version}" for name, version in found.items())
    return (f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d}, hotkernel {server.version if server else 'unknown'}, "
            f"MCP {client.protocol_version}, client mcp {metadata.version('mcp')}, Python {platform.python_version()}, "
            f"{libraries}; {card()}.\n\nThe whole loop took {took_s:.1f} s: {connect_s:.2f} s from starting the server to "
            f"being connected, {diary.calls_s:.1f} s in calls. {diary.progress} progress messages came.")


def card() -> str:
    """The card and its driver, by nvidia-smi, or the number of processors."""
    query = ["nvidia-smi", "--query-gpu=name,driver_version,power.limit", "--format=csv,noheader"]
    try:
        name, driver, power = subprocess.run(query, capture_output=True, text=True, timeout=20,
                                             check=True).stdout.splitlines()[0].split(", ")
        return f"{name}, driver {driver}, {power}"
    except (OSError, subprocess.SubprocessError, IndexError, ValueError):
        return f"no card, {os.cpu_count()} processors"


async def play(loop: Loop, on_card: bool, folder: Path, out: Path) -> bool:
    """Run the loop in `folder` and write `out`, whatever became of it."""
    (folder / "mykernels.py").write_text((loop.folder / "mykernels.py").read_text(encoding="utf-8"), encoding="utf-8")
    path = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))))
    variables = {**os.environ, "PYTHONPATH": path, "HOTKERNEL_STATE_DIR": str(folder / ".state"), "HOTKERNEL_ROOTS": str(folder),
                 "HOTKERNEL_PYTHON": os.environ.get("HOTKERNEL_PYTHON", sys.executable),
                 "TRITON_CACHE_DIR": str(folder / ".triton")}
    server = StdioServerParameters(command=sys.executable, args=["-P", "-m", "hotkernel.cli"], env=variables, cwd=str(folder))
    began = time.perf_counter()
    good, failure = False, ""
    with anyio.fail_after(LIMIT_S):
        async with Client(server) as client:
            diary = Diary(client, folder)
            connect_s = time.perf_counter() - began
            try:
                await look(diary, loop, on_card)
                good, _ = await improve(diary, loop, on_card)
            except RuntimeError as error:
                failure = f"\nThe loop ended here: {cut(diary.plain(str(error)), 600)}\n"
                print(failure, file=sys.stderr)
            head = versions(client, time.perf_counter() - began, diary, connect_s)
    named = "python benchmarks/mcp_loop.py --out FILE" + ("" if on_card else " --cpu")
    intro = f"# A loop over MCP\n\n{head}\n\nWritten by `{named}`; `…` is the working folder. Every call went through the server."
    out.write_text("\n".join([intro + "\n", *diary.steps]) + failure, encoding="utf-8")
    return good


def main() -> int:
    """Read the command line and run one loop."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="the Markdown file to write")
    parser.add_argument("--cpu", action="store_true", help="layer normalisation on the CPU: no card, no roofline, no disasm")
    parser.add_argument("--pairs", type=int, help="n of the last verify (default: 3 on the CPU, verify's own on a card)")
    given = parser.parse_args()
    out = given.out.resolve()
    out.parent.mkdir(parents=True, exist_ok=True)
    loop = CPU if given.cpu else CARD
    loop = replace(loop, pairs={"n": given.pairs}) if given.pairs else loop
    with tempfile.TemporaryDirectory(prefix="mcp_loop_", ignore_cleanup_errors=True) as folder:
        good = anyio.run(play, loop, not given.cpu, Path(folder).resolve(), out)
    print(f"{out}: {'faster, and both are on the board' if good else 'not what was expected'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
