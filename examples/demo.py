"""Shows hotkernel at work: four candidates of one target judged, recorded and put on a board; what `make demo` runs.

On an NVIDIA card with Triton it judges examples/01_rmsnorm there, else examples/04_layernorm_cpu on the CPU. Everything it
writes lies in ./demo (made anew each time); nothing of the user's state is touched.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.machine.driver import list_gpus
from hotkernel.schema.comparison import Comparison
from hotkernel.session import Session
from hotkernel.tools.records import record
from hotkernel.tools.speed import verify

HERE = Path(__file__).resolve().parent
UNEXPECTED = """, and not all as they should be.
If the rewrite is inconclusive, something else had the cores: end it and try again, or see docs/troubleshooting.md."""
# Pairs: the rewrite may need more where cores are noisy; the others are not called faster however few there are.
STEPS = (
    ("untouched", "a copy of the baseline", 3, ("inconclusive",)),
    ("candidate", "a real rewrite", 7, ("faster",)),
    ("wrong", "fast, and subtly wrong", 3, ("incorrect",)),
    ("cheat", "forges its clock and prints its own result", 3, ("inconclusive", "slower", "invalid", "incorrect")),
)


def main() -> int:
    """Run the four; 0 when each came out as it should."""
    began = time.monotonic()
    on_card = bool(list_gpus().gpus)
    example, name = ("01_rmsnorm", "rmsnorm") if on_card else ("04_layernorm_cpu", "layernorm")
    folder = Path("demo").resolve()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(HERE / example, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    environment = {**os.environ, "HOTKERNEL_STATE_DIR": str(folder / "state")}
    environment.setdefault("HOTKERNEL_PYTHON", sys.executable)
    session = Session(root=folder, environment=environment, progress=tell)
    print(f"Target {name}, judged on {'the GPU' if on_card else 'the CPU: there is no NVIDIA card here'}.\n", flush=True)
    as_expected = True
    try:
        for step, what, pairs, wanted in STEPS:
            as_expected &= judge(session, name, step, what, pairs) in wanted
    except ToolError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    finally:
        session.nursery.close()
    print(f"The board, {folder / 'LEADERBOARD.md'}:\n")
    print((folder / "LEADERBOARD.md").read_text(encoding="utf-8"))
    print(f"Four verdicts in {time.monotonic() - began:.0f} s" + ("." if as_expected else UNEXPECTED))
    return 0 if as_expected else 1


def judge(session: Session, name: str, step: str, what: str, pairs: int) -> str:
    """One candidate: verify, record, and a few lines on how it went."""
    print(f"-- {name}_{step}.py: {what}", flush=True)
    found = verify(session, f"{name}/{name}_{step}.py", f"{name}/{name}_baseline.py", n=pairs)
    kept = record(session, name, found.id, note=what, who="demo")
    print(f"   verdict: {found.verdict}" + (f" (rule {found.rule})" if found.rule else ""))
    print(f"   {found.reason}")
    print(f"   {times(found)}")
    print(f"   {kept.advice}\n", flush=True)
    return str(found.verdict)


def times(found: Comparison) -> str:
    """Both sides' times per call with their count and spread."""
    sides = (("baseline", found.baseline), ("candidate", found.candidate))
    said = [f"{side} {m.mean_ms * 1e3:.1f} us (n={m.n}, sd {(m.std_ms or 0) * 1e3:.1f})" for side, m in sides if m]
    return ", ".join(said) or "no time: nothing right was measured"


def tell(message: str, done: int | None = None, total: int | None = None) -> None:
    """What runs now, on standard error."""
    where = f" [{done}/{total}]" if total else ""
    print(f"   … {message}{where}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
