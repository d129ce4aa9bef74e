"""Every case of tests/cheats and tests/honest under the judge, on this machine's card, and under the original if asked.

    python benchmarks/integrity.py --out DIR [--again 3] [--total-s 540] [--limit-s 60] [--original hotkernel-0.1.1.whl]

The target is an eager rmsnorm (x 4096x8192, bf16); a case that names another baseline of tests/integrity/targets runs
against that one, on the card too. Each case has a time limit of its own, so that one that hangs ends nothing but itself.
DIR/integrity.json and DIR/integrity.md are written anew after each case, and a run into the same DIR goes on where the last
one ended. `--original` takes a wheel of hotkernel 0.1.1 and runs it as its users do: a target made by its own `new`, each
case as a script that hands its function to the target's run(), its verify with n=2 and no warm-up; `--original-each 2` takes
two cases of each class, `--at-once 6` six at a time, which share the card. The state folder is one of the run's own.
`--device cpu` tries the script itself; cases that need a card, Triton or a compiler are left out there.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import datetime
import json
import os
import platform
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests" / "integrity"), str(ROOT / "benchmarks")]

from cases import TARGETS, Case, all_cases
from original_hotkernel import FUNCTION, Original

from hotkernel.errors import ToolError
from hotkernel.records import comparisons
from hotkernel.records.files import write_whole
from hotkernel.schema.verdict import Side, VerdictKind
from hotkernel.session import Session
from hotkernel.tools.speed import judge

TARGET = "rmsnorm"  # of most cases, at a size that a card is for
BASELINE = FUNCTION + """
from hotkernel_contract import Target

TARGET = Target(name="rmsnorm", function=rmsnorm, inputs={{"x": "{shape}", "w": "{columns}"}}, dtype="bf16", device="{device}")
"""


@dataclasses.dataclass
class Row:
    """One case and what came of it."""

    case: str
    kind: str  # cheats, honest
    category: str
    expected: str
    run: int = 1
    verdict: str | None = None  # null while it has not run
    rule: str | None = None
    reason: str = ""
    speedup: float | None = None
    ours_ms: float | None = None
    baseline_ms: float | None = None
    seconds: float | None = None
    passed: bool | None = None
    assurance: str | None = None
    original_verdict: str | None = None
    original_reason: str = ""
    original_speedup: float | None = None
    original_seconds: float | None = None
    original_passed: bool | None = None


def main() -> int:
    """Run the cases, write the tables; 0 where each came out as it must."""
    options = _options()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    chosen = _chosen(options)
    again = chosen[:: options.again] if options.again else []
    rows = _kept(out, [_row(case) for case in chosen] + [_row(case, run=2) for case in again])
    with tempfile.TemporaryDirectory(prefix="integrity-") as folder:
        work = Path(folder)
        if not options.original_only:
            _run_ours(options, chosen, rows, work, out)
        if options.original:
            _run_original(options, _for_the_original(options, chosen), rows, work, out)
    _write(options, rows, out)
    print(_table(rows))
    failed = [row.case for row in rows if row.passed is False]
    print(f"{sum(row.passed is True for row in rows)} passed, {len(failed)} failed, "
          f"{sum(row.passed is None for row in rows)} not run{': ' + ', '.join(failed) if failed else ''}")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, required=True, help="folder for integrity.json and integrity.md")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--shape", default="", help="of x (default 4096x8192; 256x1024 on the CPU)")
    parser.add_argument("--only", default="", help="cases whose name matches this regular expression")
    parser.add_argument("--part", default="1/1", help="2/3: the second of three parts of the cases")
    parser.add_argument("--again", type=int, default=0, help="3: every third case a second time")
    parser.add_argument("--pairs", type=int, default=3, help="most pairs of processes a case")
    parser.add_argument("--limit-s", type=float, default=60.0, help="of one case")
    parser.add_argument("--total-s", type=float, default=86_400.0, help="no case begins after so long")
    parser.add_argument("--original", type=Path, help="a wheel of hotkernel 0.1.1")
    parser.add_argument("--original-only", action="store_true")
    parser.add_argument("--original-limit-s", type=float, default=120.0, help="of one case under the original")
    parser.add_argument("--original-each", type=int, default=0, help="so many cases of each class (default: all)")
    parser.add_argument("--at-once", type=int, default=1, help="the original's cases at a time")
    options = parser.parse_args()
    options.shape = options.shape or ("4096x8192" if options.device == "cuda" else "256x1024")
    options.began = time.monotonic()
    return options


def _chosen(options: argparse.Namespace) -> list[Case]:
    part, of = map(int, options.part.split("/"))
    cases = [case for case in all_cases() if re.search(options.only, case.name)]
    cases = [case for case in cases if (case.runs_on_cpu if options.device == "cpu" else case.runs_on_card)]
    return cases[part - 1:: of]


def _kept(out: Path, rows: list[Row]) -> list[Row]:
    """These rows, with what an earlier run into this folder found of them, and of others."""
    file = out / "integrity.json"
    found = json.loads(file.read_text(encoding="utf-8"))["rows"] if file.exists() else []
    earlier = {(each["case"], each["run"]): Row(**each) for each in found}
    mine = [earlier.pop((row.case, row.run), row) for row in rows]
    return [*mine, *(row for row in earlier.values() if row.verdict or row.original_verdict)]


def _for_the_original(options: argparse.Namespace, cases: Sequence[Case]) -> list[Case]:
    """The cases that it can run at all (its rmsnorm), the first of each class where not all are asked for."""
    of_class: dict[str, list[Case]] = {}
    for case in cases:
        if case.target == TARGET:
            of_class.setdefault(case.category, []).append(case)
    return [case for each in of_class.values() for case in each[: options.original_each or None]]


def _row(case: Case, run: int = 1) -> Row:
    kind, expected = ("cheats", "not faster") if case.is_cheat else ("honest", "not refused")
    return Row(case.name, kind, case.category, expected, run)


def _is_late(options: argparse.Namespace) -> bool:
    return bool(time.monotonic() - options.began > options.total_s)


# Ours -----------------------------------------------------------------------------------------------------------------


def _run_ours(options: argparse.Namespace, cases: Sequence[Case], rows: Sequence[Row], work: Path, out: Path) -> None:
    """Each row under verify's own judge, with one warm server."""
    by_name = {case.name: case for case in cases}
    environment = {**os.environ, "HOTKERNEL_PYTHON": os.environ.get("HOTKERNEL_PYTHON") or sys.executable,
                   "HOTKERNEL_STATE_DIR": str(work / "state")}
    session = Session(root=work, environment=environment)
    try:
        for row in rows:
            if row.verdict is not None or row.case not in by_name:
                continue
            if _is_late(options):
                break
            _judge(session, by_name[row.case], row, _baseline(by_name[row.case], work, options), options)
            _say(row)
            _write(options, rows, out)
    finally:
        session.nursery.close()


def _baseline(case: Case, work: Path, options: argparse.Namespace) -> Path:
    """The case's baseline, on the device that is asked for; its own file for each target."""
    file = work / "targets" / f"{case.target}_baseline.py"
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        text = (TARGETS / file.name).read_text(encoding="utf-8").replace('device="cpu"', f'device="{options.device}"')
        if case.target == TARGET:
            text = BASELINE.format(shape=options.shape, columns=options.shape.split("x")[-1], device=options.device)
        file.write_text(text, encoding="utf-8")
    return file


def _judge(session: Session, case: Case, row: Row, baseline: Path, options: argparse.Namespace) -> None:
    own = session.root / f"{case.name}-{row.run}"
    own.mkdir()
    candidate = own / case.path.name
    shutil.copyfile(case.path, candidate)
    shutil.copyfile(baseline, own / baseline.name)  # so that whoever edits a baseline beside it finds one
    began = time.monotonic()
    try:
        found = judge(session, {Side.BASELINE: baseline, Side.CANDIDATE: candidate}, n=options.pairs, timeout=options.limit_s)
    except ToolError as error:
        row.verdict, row.reason = "error", error.message
        row.passed = case.is_cheat
        session.nursery.close()  # whatever hung there is not the next case's
    else:
        row.verdict, row.rule, row.reason, row.speedup = str(found.verdict), found.rule, found.reason, found.speedup
        row.ours_ms = found.candidate.median_ms if found.candidate else None
        row.baseline_ms = found.baseline.median_ms if found.baseline else None
        row.passed, row.assurance = case.passes(found.verdict), found.assurance
    row.seconds = round(time.monotonic() - began, 1)


# The original ---------------------------------------------------------------------------------------------------------


def _run_original(options: argparse.Namespace, cases: Sequence[Case], rows: Sequence[Row], work: Path, out: Path) -> None:
    """Each case once under hotkernel 0.1.1."""
    original = Original(options.original, work, TARGET, FUNCTION, {"x": options.shape, "w": options.shape.rpartition("x")[2]})

    def one(case: Case, row: Row) -> Row:
        if row.original_verdict is None and not _is_late(options):
            _ask_original(case, row, original, options)
        return row

    first = {row.case: row for row in rows if row.run == 1}
    with concurrent.futures.ThreadPoolExecutor(options.at_once) as pool:
        for done in concurrent.futures.as_completed([pool.submit(one, case, first[case.name]) for case in cases]):
            _say(done.result(), original=True)
            _write(options, rows, out)


def _ask_original(case: Case, row: Row, original: Original, options: argparse.Namespace) -> None:
    began = time.monotonic()
    answer = original.verify(case.path.read_text(encoding="utf-8"), case.name, n=2, warmup=0,
                             timeout_s=options.original_limit_s, limit_s=options.original_limit_s)
    row.original_seconds = round(time.monotonic() - began, 1)
    row.original_verdict = str(answer.get("verdict", "error"))
    row.original_reason = str(answer.get("reason") or str(answer.get("error"))[-300:])[:300]
    row.original_speedup = answer.get("speedup")
    kinds = {str(kind): kind for kind in VerdictKind}
    kind = kinds.get(row.original_verdict)
    row.original_passed = case.passes(kind) if kind else case.is_cheat
    if row.original_reason.startswith("baseline failed"):  # it cannot run here at all, which says nothing of the case
        row.original_passed = None


# What is written ------------------------------------------------------------------------------------------------------


def _say(row: Row, *, original: bool = False) -> None:
    if original:
        print(f"{row.case:40s} original: {row.original_verdict or 'not run':13s} {row.original_seconds or 0:5.1f} s "
              f"{row.original_reason[:90]}", flush=True)
        return
    print(f"{row.case:40s} {row.verdict or 'not run':13s} {row.rule or '':22s} {row.seconds or 0:5.1f} s "
          f"{'' if row.passed else 'FAILED '}{row.reason[:90]}", flush=True)


def _write(options: argparse.Namespace, rows: Sequence[Row], out: Path) -> None:
    head: dict[str, Any] = {
        "made_by": "benchmarks/integrity.py", "when": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "machine": platform.platform(), "python": platform.python_version(), "device": options.device, "shape": options.shape,
        "pairs": options.pairs, "part": options.part, "gpu": _gpu(), "original_at_once": options.at_once,
        "original": options.original.name if options.original else None, "state_folder": "one of the run's own"}
    write_whole(out / "integrity.json", comparisons.as_json({**head, "rows": [dataclasses.asdict(row) for row in rows]}))
    write_whole(out / "integrity.md", _table(rows))


def _gpu() -> str | None:
    from hotkernel.machine import driver

    found = driver.visible(driver.list_gpus().gpus, os.environ)
    return f"{found[0].name}, driver {found[0].driver}" if found else None


def _table(rows: Sequence[Row]) -> str:
    """By class of case: how many, how many came out as they must here, and under the original."""
    lines = ["| class | cases | ours: as it must be | the original's: as it must be |", "|---|---|---|---|"]
    for kind in ("cheats", "honest"):
        of_kind = [row for row in rows if row.kind == kind]
        for category in dict.fromkeys(row.category for row in of_kind):
            lines.append(_line(category, [row for row in of_kind if row.category == category]))
        lines.append(_line(f"**all {'that must not be faster' if kind == 'cheats' else 'honest'}**", of_kind))
    wrong = [row for row in rows if row.passed is False]
    lines += [f"\nFailed here: `{row.case}` ({row.verdict}: {row.reason})" for row in wrong]
    return "\n".join(lines) + "\n"


def _line(title: str, rows: Iterable[Row]) -> str:
    chosen = list(rows)
    ran = [row for row in chosen if row.passed is not None]
    original = [row for row in chosen if row.original_passed is not None]
    ours = f"{sum(bool(row.passed) for row in ran)} of {len(ran)}" if ran else "–"
    theirs = f"{sum(bool(row.original_passed) for row in original)} of {len(original)}" if original else "–"
    return f"| {title} | {len({row.case for row in chosen})} | {ours} | {theirs} |"


if __name__ == "__main__":
    sys.exit(main())
