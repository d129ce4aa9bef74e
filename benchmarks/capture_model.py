"""From a whole model to a faster one: capture examples/decoder.py, make targets, verify candidates, apply them in the model.

    python benchmarks/capture_model.py --out DIR [--size small] [--pick RMSNorm SwiGLU] [--runs 7]

Sizes: `card` (12 layers of 4096, 2 x 2048 tokens, bf16) and `small` (12 layers of 256, 128 tokens, fp32, the CPU's). The
candidates are benchmarks/decoder/. DIR/capture.json is written anew after every part and holds every number; DIR/capture.md
the tables.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from hotkernel.errors import ToolError
from hotkernel.records.files import write_whole
from hotkernel.schema.plain import to_plain
from hotkernel.session import Session
from hotkernel.tools.capture import capture
from hotkernel.tools.gpu import gpu_info
from hotkernel.tools.speed import verify

SIZES = {"card": ["--layers", "12", "--dim", "4096", "--tokens", "2048", "--batch", "2", "--dtype", "bf16", "--device", "cuda"],
         "small": ["--layers", "12", "--dim", "256", "--tokens", "128", "--dtype", "fp32", "--device", "cpu"]}
TOP = 20
KEPT = ("id", "verdict", "reason", "speedup", "interval_99", "baseline", "candidate", "checks", "warnings")


def part(session: Session, name: str, args: list[str], runs: int) -> dict[str, Any]:
    """One row from target to model and back; what a tool refuses is said."""
    found: dict[str, Any] = {"pick": name}
    try:
        picked = capture(session, "decoder.py", "step", name, args=args, out_dir=name.lower())
        assert picked.target is not None
        found["target"], found["row"] = to_plain(picked.target), to_plain(picked.rows[0])
        files = picked.target.new_target.files
        shutil.copy(ROOT / "benchmarks" / "decoder" / Path(files["candidate"]).name, files["candidate"])
        found["verify"] = {key: value for key, value in to_plain(verify(session, files["candidate"], files["baseline"])).items()
                           if key in KEPT}
        found["applied"] = to_plain(capture(session, "decoder.py", "step", apply=files["candidate"], args=args, n=runs).applied)
    except ToolError as error:
        found["error"] = {"message": error.message, "fix": error.fix, "detail": error.detail[-2000:]}
    return found


def markdown(found: dict[str, Any]) -> str:
    """The tables of it."""
    captured = found["capture"]
    lines = [f"# A decoder on {found['device']}, {found['date']}", "",
             f"`decoder.py {' '.join(found['args'])}`: {captured['steps']} steps of {captured['step_ms']:.4g} ms under the "
             f"profiler, {captured['total_us'] / captured['steps'] / 1e3:.4g} ms of {captured['device']} time each.", "",
             "| # | kind | name | calls | share | whole if 2x | whole at most | inputs |", "|---|---|---|---|---|---|---|---|"]
    for row in captured["rows"]:
        most = "" if row["whole_at_most"] is None else f"{row['whole_at_most']:.3f}"
        lines.append(f"| {row['number']} | {row['kind']} | `{row['name']}` | {row['calls']} | {row['pct']:.1f} % | "
                     f"{row['whole_if_2x']:.3f} | {most} | {row['inputs']} |")
    lines += ["", "| picked | verify | speed-up | in the model | ms before | ms after | predicted | measured | agrees |",
              "|---|---|---|---|---|---|---|---|---|"]
    for each in found["parts"]:
        lines.append(_line(each))
    lines += ["", *(f"- {each['pick']}: {each['applied']['agreement']}" for each in found["parts"] if each.get("applied"))]
    return "\n".join(lines) + "\n"


def _line(each: dict[str, Any]) -> str:
    verdict, applied = each.get("verify") or {}, each.get("applied") or {}
    if not applied:
        return f"| {each['pick']} | {verdict.get('verdict', '')} | | {each.get('error', {}).get('message', '')} | | | | | |"
    predicted, measured = (_range(applied[name]) for name in ("predicted_speedup", "measured_speedup"))
    before, after = (f"{applied[side]['mean_ms']:.4g}" if applied[side] else "" for side in ("before", "after"))
    speedup = f"{verdict['speedup']:.3f}" if verdict.get("speedup") else ""
    return (f"| {each['pick']} | {verdict.get('verdict', '')} | {speedup} | {applied['verdict']} | {before} | {after} | "
            f"{predicted} | {measured} | {applied['agrees']} |")


def _range(numbers: Any) -> str:
    return f"{numbers[1]:.3f} ({numbers[0]:.3f} to {numbers[2]:.3f})" if numbers and None not in numbers else ""


def main() -> int:
    """Run it and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--size", choices=SIZES, default="card")
    parser.add_argument("--pick", nargs="*", default=["RMSNorm", "SwiGLU"])
    parser.add_argument("--runs", type=int, default=7)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="capture-model-") as work:
        shutil.copy(ROOT / "examples" / "decoder.py", work)
        session = Session(root=Path(work), environment={**os.environ, "HOTKERNEL_PYTHON": sys.executable,
                                                        "HOTKERNEL_STATE_DIR": f"{work}/state"})
        args, cards = SIZES[given.size], gpu_info(session).gpus
        found: dict[str, Any] = {
            "made_by": "benchmarks/capture_model.py", "date": datetime.date.today().isoformat(), "args": args, "parts": [],
            "device": cards[0].name if cards and given.size == "card" else "the CPU",
            "capture": to_plain(capture(session, "decoder.py", "step", args=args, top=TOP))}
        for name in given.pick:
            found["parts"].append(part(session, name, args, given.runs))
            told = json.dumps(found, indent=1).replace(work, ".").replace(str(ROOT), "REPOSITORY")
            write_whole(given.out / "capture.json", told + "\n")
            write_whole(given.out / "capture.md", markdown(found))
            print(_line(found["parts"][-1]), flush=True)
        session.nursery.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
