"""hotkernel 0.1.1 from its wheel, run as its users run it: a target by its own `new`, scripts, its `verify`. Judges nothing."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

FUNCTION = """import torch


def rmsnorm(x, w):
    xf = x.float()
    return (xf * torch.rsqrt(xf.pow(2).mean(-1, keepdim=True) + 1e-6) * w.float()).to(x.dtype)
"""
AS_SCRIPT = """from {target}_baseline import run

{source}

if __name__ == "__main__":
    run(candidate, impl="{name}")
"""
NEW = """import sys
sys.path.insert(0, {wheel!r})
from hotkernel.newtarget import main
sys.exit(main({arguments!r}))
"""
VERIFY = """import json, sys
sys.path.insert(0, {wheel!r})
try:
    import mcp
except ImportError:  # its tools are plain functions; only the server needs the SDK
    import types
    class Server:
        def __init__(self, *arguments, **named): pass
        def tool(self): return lambda function: function
    for name in ("mcp", "mcp.server", "mcp.server.mcpserver"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules["mcp.server.mcpserver"].MCPServer = Server
from hotkernel.server import verify
print("ANSWER " + json.dumps(verify({candidate!r}, {baseline!r}, n={n}, warmup={warmup}, cwd={cwd!r}, timeout={timeout})))
"""
NEW_S = 60.0
TAIL = 1000  # characters of what it printed, where it gave no answer


class Original:
    """A target of its own making, and verdicts against it."""

    def __init__(self, wheel: Path, work: Path, name: str, source: str, shapes: Mapping[str, str]) -> None:
        """Unpack it below `work` and have it make a target of the function `name` in `source`.

        `shapes` of its inputs in call order, as "4096x8192"; the first is `x`. Raises SystemExit where it makes none.
        """
        self.wheel, self.name, self.target = work / "wheel", name, work / "original"
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(self.wheel)
        self.target.mkdir()
        kernels = self.target / "kernels.py"
        kernels.write_text(source, encoding="utf-8")
        first, *others = shapes.items()
        arguments = [name, "--from", f"{kernels}:{name}", "--shape", first[1], "--out", str(self.target)]
        for each, shape in others:
            arguments += ["--extra", f"{each}:{shape}"]
        made = _ask(NEW.format(wheel=str(self.wheel), arguments=arguments), NEW_S)
        if not (self.target / f"{name}_baseline.py").exists():
            raise SystemExit(f"the original made no target: {made[-2000:]}")

    def verify(self, source: str, name: str, *, n: int, warmup: int, timeout_s: float, limit_s: float) -> dict[str, Any]:
        """Its answer on a candidate, in a folder of its own; `error` where it gave none. `source` defines `candidate`."""
        own = self.target.with_name(f"original-{name}")
        shutil.copytree(self.target, own)
        candidate = own / f"{self.name}_candidate.py"
        candidate.write_text(AS_SCRIPT.format(target=self.name, source=source, name=name), encoding="utf-8")
        baseline = own / f"{self.name}_baseline.py"
        said = _ask(VERIFY.format(wheel=str(self.wheel), candidate=str(candidate), baseline=str(baseline),
                                  n=n, warmup=warmup, cwd=str(own), timeout=int(timeout_s)), limit_s)
        answers = [line for line in said.splitlines() if line.startswith("ANSWER ")]
        if not answers:
            return {"error": said[-TAIL:] or "no answer in time"}
        answer: dict[str, Any] = json.loads(answers[-1].removeprefix("ANSWER "))
        return answer


def _ask(code: str, limit_s: float) -> str:
    """What a Python says to this code, ours out of its sight; its whole group is ended after the limit."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment |= {"HOTKERNEL_PYTHON": os.environ.get("HOTKERNEL_PYTHON") or sys.executable}
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, env=environment, start_new_session=True) as process:
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            said = ""
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return said
