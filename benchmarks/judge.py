"""How right and how quick the judge is, on this machine's card, by whole verifies of the kernels in benchmarks/kernels.

    python benchmarks/judge.py PART … --out DIR [--aa 100] [--planted 40] [--original hotkernel-0.1.1.whl] [--limit-s S]

Parts: `cupti` (device time beside CUPTI's kernel time, 2 us to 500 ms), `aa` (the same code on both sides: no verify may say
faster; and what resampling its pairs says), `planted` (a kernel that moves 1, 2, 5 % more than its candidate), `launches` (a
kernel launched twice against once), `slopes` (n2 against 2·n2, and slots with the flush left out), `forked` (forked against
cold-started workers), `speed` (seconds of a verify, cold and warm, by phase), `original` (0.1.1's verify as its users run
it). DIR/judge.json is written anew after every verify and holds every number, of which card and which sources (`runs`);
a run into the same DIR goes on where the last one ended. DIR/judge.md, written at the end, holds the tables. The state folder is
one of the run's own, so no verify here continues another's test. On several cards, a run on each (CUDA_VISIBLE_DEVICES) into
a DIR of its own; then `judge.py --out ALL --join DIR …` puts their rows together.
"""

from __future__ import annotations

import argparse
import collections
import dataclasses
import datetime
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(ROOT / "src"), str(HERE)]

import judge_tables
from original_hotkernel import FUNCTION, Original

from hotkernel.errors import ToolError
from hotkernel.harness.zygote import Nursery
from hotkernel.judge import samples
from hotkernel.records import comparisons
from hotkernel.records.files import write_whole
from hotkernel.schema.comparison import Comparison
from hotkernel.schema.verdict import Side, VerdictKind
from hotkernel.session import Session
from hotkernel.tools.speed import judge

NINE = ("rmsnorm_triton", "rmsnorm_eager", "softmax", "clone", "gemv", "matmul", "triad", "rmsnorm_small", "add_one_small")
LONG = ("looped_1ms", "looped_50ms", "looped_500ms")
STOCK = ("rmsnorm_eager", "softmax", "gemv", "clone")  # whose equal sides are judged again and again
PLANTED_ROWS = {1: 41, 2: 82, 5: 205}  # of 4096
LAUNCHES = 3  # verifies
# What differs in the copies of the package that `slopes` compares: file -> what stands there, and what stands there instead.
CHANGES: dict[str, dict[str, tuple[str, str]]] = {
    "as it is": {},
    "2·n2": {"hotkernel/harness/plan.py": (
        "    n1, n2 = SHORT, SHORT + between\n", "    n1, n2 = SHORT, 2 * (SHORT + between)\n")},
    "no flush": {"hotkernel_contract/card.py": ("        self._flush()\n        self.stamps[3]", "        self.stamps[3]")}}


class Bench:
    """One run: its session, its state folder and what it found so far."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self.options, self.work, self.state = options, work, work / "state"
        self.began = time.monotonic()
        earlier = options.out / "judge.json"
        self.found: dict[str, Any] = json.loads(earlier.read_text(encoding="utf-8")) if earlier.exists() else {
            "made_by": "benchmarks/judge.py", "runs": [], "parts": {}}
        self.run = len(self.found["runs"])
        if options.parts:
            self.found["runs"].append({"when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), "gpu": _gpu(),
                                       "code_sha256": _code(), "parts": options.parts})
        self.environment = {**os.environ, "HOTKERNEL_PYTHON": os.environ.get("HOTKERNEL_PYTHON") or sys.executable,
                            "HOTKERNEL_STATE_DIR": str(self.state)}
        self.session = Session(root=work, environment=self.environment, nursery=Nursery(is_served=True))
        shutil.copytree(HERE / "kernels", work / "kernels")

    @property
    def is_late(self) -> bool:
        return time.monotonic() - self.began > self.options.limit_s

    def verify(self, part: str, baseline: Path, candidate: Path, label: str, n: int | None = None) -> Comparison | None:
        """One whole verify with a ledger that knows of no other; its row is kept."""
        shutil.rmtree(self.state / "ledger", ignore_errors=True)
        began = time.monotonic()
        row: dict[str, Any] = {"label": label, "run": self.run, "at_s": round(began - self.began, 1)}
        try:
            found = judge(self.session, {Side.BASELINE: baseline, Side.CANDIDATE: candidate}, n=n, timeout=120.0)
        except ToolError as error:
            self._keep(part, {**row, "verdict": "error", "reason": f"{error.message} {error.detail[-500:]}"})
            return None
        row |= self._row(found, time.monotonic() - began)
        self._keep(part, row)
        return found

    def _row(self, found: Comparison, seconds: float) -> dict[str, Any]:
        evidence = comparisons.load(self.state, found.id).evidence
        assert evidence is not None
        values = samples.values_of(evidence.plan, evidence.batches, evidence.fills)
        voids = collections.Counter(batch.void for batch in evidence.batches if batch.void)
        return {
            "verdict": str(found.verdict), "speedup": found.speedup, "interval": found.interval_99, "reason": found.reason,
            "equivalent": found.equivalent, "seconds": round(seconds, 3), "baseline": _times(found.baseline),
            "candidate": _times(found.candidate), "resolution_us": found.resolution_us, "call_ms": found.call_ms,
            "n1": evidence.plan.n1, "n2": evidence.plan.n2, "mode": str(evidence.plan.mode), "voids": dict(voids),
            "pairs": [dataclasses.asdict(pair) for pair in samples.pairs_of(evidence.plan, values)],
            "phases": found.seconds, "warnings": list(found.warnings)}

    def _keep(self, part: str, row: dict[str, Any]) -> None:
        self.found["parts"].setdefault(part, []).append(row)
        print(f"{part:9s} {row['label']:28s} {row.get('verdict', ''):12s} {row.get('seconds') or 0:6.2f} s  "
              f"{str(row.get('reason', ''))[:100]}", flush=True)
        self.write()

    def note(self, part: str, row: dict[str, Any]) -> None:
        """Keep something that is no verify."""
        self.found["parts"].setdefault(part, []).append({**row, "run": self.run})
        print(f"{part:9s} {json.dumps(row)[:200]}", flush=True)
        self.write()

    def join(self, others: Sequence[Path]) -> None:
        """Add what runs into other folders found."""
        for other in others:
            found = json.loads((other / "judge.json").read_text(encoding="utf-8"))
            before = len(self.found["runs"])
            self.found["runs"] += found["runs"]
            for part, rows in found["parts"].items():
                self.found["parts"].setdefault(part, []).extend({**row, "run": row["run"] + before} for row in rows)
        self.write()

    def write(self) -> None:
        """What was found so far."""
        write_whole(self.options.out / "judge.json", comparisons.as_json(self.found))

    def write_tables(self) -> None:
        """At the end alone: what resampling says takes seconds."""
        write_whole(self.options.out / "judge.md", "\n".join(judge_tables.tables(self.found["parts"])) + "\n")


def _times(measured: Any) -> dict[str, Any] | None:
    return None if measured is None else {"median_us": measured.median_ms * 1e3, "mean_us": measured.mean_ms * 1e3,
                                          "std_us": measured.std_ms * 1e3 if measured.std_ms is not None else None,
                                          "n": measured.n}


# The parts ------------------------------------------------------------------------------------------------------------


def cupti(bench: Bench) -> None:
    """Ours and CUPTI's over slots that do not repeat."""
    files = [bench.work / "kernels" / f"{name}.py" for name in NINE + LONG]
    for file in files:
        bench.verify("cupti", file, file, file.stem, n=1 if file.stem in LONG else 3)
    words = [f"{file}:{_function(file)}" for file in files]
    done = subprocess.run([bench.environment["HOTKERNEL_PYTHON"], HERE / "cupti_times.py", *words], check=False,
                          capture_output=True, text=True, timeout=240)
    for line in done.stdout.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            bench.note("cupti_times", {"label": Path(row["function"].rpartition(":")[0]).stem, **row})
    if done.returncode:
        bench.note("cupti_times", {"label": "error", "reason": done.stderr[-2000:]})


def _function(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    return text.partition("function=")[2].partition(",")[0]


def aa(bench: Bench) -> None:
    """Whole verifies of the same code on both sides."""
    for number in range(len(bench.found["parts"].get("aa", ())), bench.options.aa):
        if bench.is_late:
            break
        file = bench.work / "kernels" / f"{STOCK[number % len(STOCK)]}.py"
        bench.verify("aa", file, file, file.stem)


def planted(bench: Bench) -> None:
    """A baseline that moves a few percent more than its candidate."""
    text = (bench.work / "kernels" / "copy_planted.py").read_text(encoding="utf-8")
    head = text.partition("def baseline")[0].replace("from hotkernel_contract import Target\n", "")
    candidate = bench.work / "planted" / "copy_candidate.py"
    candidate.parent.mkdir()
    candidate.write_text(head + "def candidate(x):\n    return copy(x, 0)\n", encoding="utf-8")
    files = {}
    for percent, rows in PLANTED_ROWS.items():
        files[percent] = bench.work / f"planted_{percent}" / "copy_baseline.py"
        files[percent].parent.mkdir()
        files[percent].write_text(text.replace("PLANTED = 82", f"PLANTED = {rows}"), encoding="utf-8")
    there = collections.Counter(row["label"] for row in bench.found["parts"].get("planted", ()))
    for number in range(bench.options.planted):
        for percent in bench.options.percents:
            if number >= there[f"+{percent} %"] and not bench.is_late:
                bench.verify("planted", files[percent], candidate, f"+{percent} %")


def launches(bench: Bench) -> None:
    """What one launch more costs, and whether it is seen: the least difference that a rewrite can make."""
    one = (bench.work / "kernels" / "rmsnorm_triton.py").read_text(encoding="utf-8").partition("def reference")[0]
    candidate = bench.work / "launches" / "rmsnorm_candidate.py"
    candidate.parent.mkdir()
    candidate.write_text(one.replace("from hotkernel_contract import Target\n", "") + "candidate = rmsnorm\n", encoding="utf-8")
    for _ in range(LAUNCHES):
        bench.verify("launches", bench.work / "kernels" / "rmsnorm_two_launches.py", candidate, "two launches against one")


def slopes(bench: Bench) -> None:
    """The same kernels by n2 and by 2·n2, and with the flush left out, in a copy of the package that differs in that."""
    for label, change in CHANGES.items():
        copy = bench.work / "copies" / label.replace(" ", "-")
        shutil.copytree(ROOT / "src", copy)
        for name, (before, after) in change.items():
            text = (copy / name).read_text(encoding="utf-8")
            assert before in text, name
            (copy / name).write_text(text.replace(before, after), encoding="utf-8")
        for stem in ("rmsnorm_triton", "softmax", "gemv", "rmsnorm_small"):
            file = bench.work / "kernels" / f"{stem}.py"
            code = ("import json, sys; from pathlib import Path; from hotkernel.session import Session; "
                    "from hotkernel.tools.speed import verify; s = Session(root=Path(sys.argv[1])); "
                    "r = verify(s, sys.argv[2], sys.argv[2], n=3); s.nursery.close(); "
                    "print(json.dumps([r.baseline.median_ms, r.candidate.median_ms]))")
            environment = {**bench.environment, "PYTHONPATH": os.pathsep.join([str(copy), os.environ.get("PYTHONPATH", "")]),
                           "HOTKERNEL_STATE_DIR": str(bench.state / "slopes" / label)}
            done = subprocess.run([sys.executable, "-c", code, str(bench.work), str(file)], env=environment, check=False,
                                  capture_output=True, text=True, timeout=120)
            said = done.stdout.strip().splitlines()[-1:] or ["null"]
            both = json.loads(said[0]) if done.returncode == 0 else None
            bench.note("slopes", {"label": f"{stem}, {label}", "us": both and [1e3 * ms for ms in both],
                                  "reason": done.stderr[-300:] if done.returncode else ""})


def forked(bench: Bench) -> None:
    """One pair a verify: of one warm process's forks, and of a fresh process each time."""
    file = bench.work / "kernels" / "rmsnorm_triton.py"
    for label in ("forked", "cold"):
        for _ in range(6):
            if label == "cold":
                bench.session.nursery.close()
            bench.verify("forked", file, file, label, n=1)


def speed(bench: Bench) -> None:
    """The example rmsnorm's candidate, confirmation included: from nothing, then warm, then once more."""
    shutil.copytree(ROOT / "examples" / "01_rmsnorm", bench.work / "rmsnorm")
    baseline, candidate = bench.work / "rmsnorm" / "rmsnorm_baseline.py", bench.work / "rmsnorm" / "rmsnorm_candidate.py"
    bench.session.nursery.close()
    shutil.rmtree(bench.state / "caches", ignore_errors=True)
    bench.verify("speed", baseline, candidate, "cold, nothing compiled")
    bench.session.nursery.close()
    bench.verify("speed", baseline, candidate, "cold, compiled before")
    text = candidate.read_text(encoding="utf-8")
    for number in range(3):
        candidate.write_text(text + f"\nTRY = {number}\n", encoding="utf-8")
        bench.verify("speed", baseline, candidate, "warm, a new candidate")
    for _ in range(3):
        bench.verify("speed", baseline, candidate, "warm, compiled before")


def original(bench: Bench) -> None:
    """hotkernel 0.1.1 on the same example, n=7 and warmup=2, its users' defaults."""
    source = (ROOT / "examples" / "01_rmsnorm" / "rmsnorm_candidate.py").read_text(encoding="utf-8").partition("if __name__")[0]
    made = Original(bench.options.original, bench.work, "rmsnorm", FUNCTION, {"x": "4096x8192", "w": "8192"})
    began = time.monotonic()
    answer = made.verify(source + "\ncandidate = rmsnorm_candidate\n", "triton", n=7, warmup=2, timeout_s=120.0, limit_s=400.0)
    bench.note("original", {"label": "rmsnorm, 0.1.1", "seconds": round(time.monotonic() - began, 1), "answer": answer})


PARTS: dict[str, Callable[[Bench], None]] = {
    part.__name__: part for part in (cupti, aa, planted, launches, slopes, forked, speed, original)}


def main() -> int:
    """Run the parts that were named, in that order."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("parts", nargs="*", choices=[[], *sorted(PARTS)])  # argparse looks for none among the choices, too
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--aa", type=int, default=100)
    parser.add_argument("--planted", type=int, default=40)
    parser.add_argument("--percents", type=int, nargs="+", default=list(PLANTED_ROWS))
    parser.add_argument("--original", type=Path, help="a wheel of hotkernel 0.1.1")
    parser.add_argument("--join", type=Path, nargs="+", default=[], help="folders of other runs")
    parser.add_argument("--limit-s", type=float, default=86_400.0, help="no verify of `aa` or `planted` begins after so long")
    options = parser.parse_args()
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="judge-", ignore_cleanup_errors=True) as folder:
        bench = Bench(options, Path(folder))
        try:
            bench.join(options.join)
            for part in options.parts:
                PARTS[part](bench)
                bench.note("parts_done", {"label": part, "at_s": round(time.monotonic() - bench.began, 1)})
        finally:
            bench.session.nursery.close()
            bench.write_tables()
            if (bench.state / "comparisons").is_dir():
                shutil.make_archive(str(options.out / f"comparisons-{bench.run}"), "gztar", bench.state / "comparisons")
    said = [row["label"] for row in bench.found["parts"].get("aa", ()) if row["verdict"] == str(VerdictKind.FASTER)]
    print((options.out / "judge.md").read_text(encoding="utf-8"))
    return 1 if said else 0


def _code() -> str:
    """What judged: SHA-256 over the package's sources."""
    whole = hashlib.sha256()
    for file in sorted((ROOT / "src").rglob("*.py")):
        whole.update(file.read_bytes())
    return whole.hexdigest()


def _gpu() -> str | None:
    from hotkernel.machine import driver

    found = driver.visible(driver.list_gpus().gpus, os.environ)
    return f"{found[0].name}, {found[0].uuid}, driver {found[0].driver}" if found else None


if __name__ == "__main__":
    sys.exit(main())
