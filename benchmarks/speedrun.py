"""The loop, run for real: every attempt of speedrun/<target>/attempts verified and recorded in order, the best one kept.

    python benchmarks/speedrun.py --out DIR [--only NAME …] [--parts PART …] [--limit-s S] [--all]

A name is a target or one attempt, `rmsnorm` or `rmsnorm/07`. Parts, each of all targets before the next: `first` (verify
three attempts, each beside the best so far), `attempts` (the others, until the ceiling is reached), `record` (every attempt,
won or lost, with its hypothesis; needs no card), `confirm` (three independent repeats of the best, or of what came nearest),
`profile` (ncu on the baseline and the best: what changed), `original` (with --original: what hotkernel 0.1.1's own verify says
of the best, for the three targets that its board shows), `compiled` (the best against torch.compile). What DIR holds already
is not done again, so that a run may be stopped and continued, and an attempt added later is the only one run. Nothing is begun
that would not end within --limit-s by what such took so far, and what fails ends nothing else. An attempt is a file whose
docstring is its hypothesis and which defines `candidate`. DIR holds results/, LEADERBOARD.md, SPEEDRUN.md (what the loop cost),
journal/ (a file a target) and state/. Runs on several cards may share DIR, each with targets of its own;
benchmarks/speedrun_publish.py brings it into a checkout.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "benchmarks")]

import speedrun_table
from original_hotkernel import Original

from hotkernel.errors import ToolError
from hotkernel.machine import driver
from hotkernel.records import calibrations, comparisons, store
from hotkernel.records.files import write_whole
from hotkernel.scaffold import vendor
from hotkernel.schema.plain import to_plain
from hotkernel.schema.verdict import VerdictKind
from hotkernel.session import Session
from hotkernel.tools.calibration import calibrate
from hotkernel.tools.disassembly import explain
from hotkernel.tools.kernels import profile
from hotkernel.tools.records import record
from hotkernel.tools.speed import verify

PARTS = ("first", "attempts", "record", "confirm", "profile", "original", "compiled")
ORDER = ("rmsnorm", "softmax", "gemv", "layernorm", "gelu", "swiglu", "residual_rmsnorm", "rotary", "cross_entropy", "int4_gemv",
         "rmsnorm_backward", "matmul_2048", "matmul_8192", "attention")
CONFIRMATIONS = 3
LEAST_ATTEMPTS = 3  # whatever the first one reaches
LAST = "99"  # what the name of the deliberately wrong attempt begins with: it is run whatever was reached
# Of one attempt, repeat, pair of profiles, … seconds that it usually takes on an H200, and that it may take at most.
USUAL_S = {"first": 12.0, "attempts": 12.0, "record": 1.0, "confirm": 12.0, "profile": 30.0, "original": 60.0, "compiled": 45.0}
LONGEST_S = {"first": 90.0, "attempts": 90.0, "record": 60.0, "confirm": 90.0, "profile": 120.0, "original": 240.0,
             "compiled": 180.0}
COMPILED_PAIRS = 5  # each of whose processes compiles anew, for seconds
TRIES = 2  # of an attempt that no verdict came of, or one from a card that was not quiet; and of profiles
ORIGINALS = ("rmsnorm", "softmax", "gemv")  # what hotkernel 0.1.1 shows on its board
ORIGINAL_RUNS = {"n": 3, "warmup": 1}  # of each side, a process each, some 5 s on an H200's host; its default takes 18 of them
LAUNCHES = {"baseline": 12, "candidate": 4}  # that ncu looks at: one call's kernels


class Late(Exception):
    """The time given is used up, or what is next would take longer than what is left of it."""


class Speedrun:
    """One run: its session, and the journal of what DIR holds."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options, self.out = options, options.out.resolve()
        self.out.mkdir(parents=True, exist_ok=True)
        self.began = time.monotonic()
        self.unprofiled = 0  # profiles that failed
        self.usual_s = dict(USUAL_S)  # of each part; the longest that this run saw, where that is longer
        environment = {**os.environ, "HOTKERNEL_PYTHON": os.environ.get("HOTKERNEL_PYTHON") or sys.executable,
                       "HOTKERNEL_STATE_DIR": str(self.out / "state")}
        environment.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # one kernel a process, in thirteen of them: no pools of 16
        self.session = Session(root=self.out, environment=environment)
        self.journal = self.out / "journal"

    def rows(self) -> dict[str, dict[str, Any]]:
        """What is known of each target, in their order, whoever ran it."""
        return journals(self.journal)

    def keep(self, name: str, row: dict[str, Any]) -> None:
        """One target's journal."""
        write_whole(self.journal / f"{name}.json", json.dumps(row, indent=1) + "\n")

    def write_table(self) -> None:
        """Of all targets, at the end: it reads every record."""
        write_whole(self.out / "SPEEDRUN.md", "\n".join(speedrun_table.page(self.rows(), store.read(self.out).records)) + "\n")

    def time_for(self, part: str) -> float:
        """The seconds that one piece of this part may take; raises Late where it would not end in time."""
        left_s = self.left_s()
        if left_s < self.usual_s[part]:
            raise Late
        return min(LONGEST_S[part], left_s)

    def left_s(self) -> float:
        return float(self.options.limit_s) - (time.monotonic() - self.began)

    def took(self, part: str, seconds: float) -> None:
        """One piece of a part is done: the next may take as long."""
        self.usual_s[part] = max(self.usual_s[part], seconds)

    def calibrate(self) -> None:
        """Once a card, in whole for the first; one that cannot be calibrated, or is none, leaves no ceiling."""
        cards = driver.visible(driver.list_gpus().gpus, self.session.environment)
        if not cards or calibrations.load(self.out / "state", cards[0].uuid, cards[0].driver, cards[0].power_limit_w).calibration:
            return
        began = time.monotonic()
        try:
            found = calibrate(self.session, quick=any((self.out / "state" / calibrations.FOLDER).glob("*.json")))
            said: dict[str, Any] = {"gpu": found.gpu, "highest_gbps": found.highest_gbps, "reason": found.reason}
        except Exception as error:  # noqa: BLE001 - without a ceiling there are attempts all the same
            said = {"error": told(error)}
        say("calibrate", f"{time.monotonic() - began:.1f} s  {json.dumps(said)}")


class Target:
    """One target's part of a run."""

    def __init__(self, run: Speedrun, source: Path) -> None:
        self.run, self.source, self.name = run, source, source.name
        self.folder = run.out / "targets" / self.name  # apart from the attempts: compile caches go by what a folder holds
        self.row: dict[str, Any] = run.rows().get(self.name) or {"attempts": []}
        self.folder.mkdir(parents=True, exist_ok=True)
        for file in sorted(source.glob("*.py")):
            shutil.copyfile(file, self.folder / file.name)
        write_whole(self.folder / "hotkernel_contract.py", vendor.contract_text())

    @property
    def baseline(self) -> str:
        return str(self.folder / f"{self.name}_baseline.py")

    @property
    def best(self) -> dict[str, Any] | None:
        """The attempt in force: each that was kept beat the one before, in the same interleaving."""
        return next((each for each in reversed(self.row["attempts"]) if each["kept"]), None)

    def first(self, only: tuple[str, ...] = ()) -> None:
        """The first attempts, so that no target is without any when the time is over."""
        self.attempts(only, sorted((self.source / "attempts").glob("*.py"))[:LEAST_ATTEMPTS], "first")

    def attempts(self, only: tuple[str, ...] = (), files: list[Path] | None = None, part: str = "attempts") -> None:
        """Verify each attempt that has no verdict of a quiet card yet; `only` those whose names begin so."""
        for file in sorted((self.source / "attempts").glob("*.py")) if files is None else files:
            if file.stem.startswith(only or "") and not self._is_done(file) and not self._is_reached(file, only):
                self._attempt(file, part)

    def _is_done(self, file: Path) -> bool:
        same = [each for each in self.row["attempts"] if each["sha256"] == digest(file)]
        return any(each["verdict"] and each["quiet"] for each in same) or len(same) >= TRIES

    def _is_reached(self, file: Path, only: tuple[str, ...]) -> bool:
        """Whether nothing is left to gain: the best is at the ceiling, and enough was tried."""
        if self.run.options.all or only or file.stem.startswith(LAST) or not self.best:
            return False
        tried = [each for each in self.row["attempts"] if each["verdict"]]
        return len(tried) >= LEAST_ATTEMPTS and (self.best["ceiling_share_pct"] or 0.0) >= speedrun_table.REACHED_PCT

    def _attempt(self, file: Path, part: str) -> None:
        limit_s = self.run.time_for(part)
        row: dict[str, Any] = {"attempt": file.stem, "sha256": digest(file), "note": hypothesis(file), "id": None,
                               "verdict": None, "speedup": None, "ceiling_share_pct": None, "quiet": True, "kept": False,
                               "recorded": False}
        candidate, best = self.candidate(row["sha256"], file), self.best
        began = time.monotonic()
        try:
            found = verify(self.run.session, str(candidate), self.baseline, n=self.run.options.pairs, timeout=limit_s,
                           incumbent=str(self.candidate(best["sha256"])) if best else "")
            if found.verdict is VerdictKind.INVALID and self.run.left_s() < 1.0:
                raise Late  # the candidate may be blamed for the time that was not there
            beats = best is None or found.incumbent_verdict is VerdictKind.FASTER
            evidence = comparisons.load(self.run.out / "state", found.id).evidence
            row |= {"id": found.id, "verdict": str(found.verdict), "speedup": found.speedup, "reason": found.reason,
                    "quiet": evidence is None or evidence.quiet, "ceiling_share_pct": found.ceiling_share_pct,
                    "kept": found.verdict is VerdictKind.FASTER and beats}
        except Exception as error:  # what is wrong with one attempt, the judge's own bug too, ends no other
            if self.run.left_s() < 1.0:  # it was cut short, and is no try
                raise Late from error
            row["reason"] = told(error)
        row["seconds"] = round(time.monotonic() - began, 2)
        self.run.took(part, row["seconds"])
        self.row["attempts"].append(row)
        self.run.keep(self.name, self.row)
        share = f"{row['ceiling_share_pct']:.1f} % of the ceiling" if row["ceiling_share_pct"] else ""
        say(f"{self.name}/{file.stem}", f"{row['verdict'] or 'error'} {row['speedup'] or ''} {share} "
                                        f"{'KEPT' if row['kept'] else ''} {row['seconds']} s  {row['reason'][:160]}")

    def candidate(self, sha256: str, file: Path | None = None) -> Path:
        """Where an attempt lies as the candidate that it is: alone in a folder."""
        path = self.run.out / "attempts" / self.name / sha256[:12] / f"{self.name}_candidate.py"
        if file is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(file, path)
        return path

    def record(self) -> None:
        """Every attempt that has a verdict and no record yet, in the order in which they were verified."""
        for row in self.row["attempts"]:
            if row["id"] is None or row["recorded"]:
                continue
            self.run.time_for("record")
            kept = record(self.run.session, self.name, row["id"], note=row["note"], who=self.run.options.who)
            row["recorded"] = kept.log
            self.run.keep(self.name, self.row)

    def confirm(self) -> None:
        """Independent repeats of the best, or of what came nearest, kept with its record."""
        best = speedrun_table.final(self.row)
        done = self.row.get("confirm", {})
        have = done.get("times", 0) if best and done.get("of") == best["id"] else 0
        while best and best["recorded"] and have < CONFIRMATIONS:
            self.run.time_for("confirm")
            began = time.monotonic()
            found = record(self.run.session, self.name, best["id"], confirm=1)
            have = found.confirmations
            self._keep("confirm", began, {"of": best["id"], "times": have, "confirmed": found.confirmed})
            say(f"{self.name} confirm", f"{found.confirmed} of {have}  {time.monotonic() - began:.1f} s")

    def profile(self) -> None:
        """What ncu sees change from the baseline to the best, kept with its record."""
        best, done = self.best, self.row.get("profile", {})
        if best is None or not best["recorded"] or done.get("of") == best["sha256"] or self.run.unprofiled == TRIES:
            return
        limit_s, began = self.run.time_for("profile"), time.monotonic()
        folder = self.run.out / "profiled" / self.name
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        shutil.copyfile(self.candidate(best["sha256"]), folder / f"{self.name}_candidate.py")
        (folder / "run_candidate.py").write_text(
            f"from {self.name}_baseline import TARGET\nfrom {self.name}_candidate import candidate\n\n"
            "TARGET.main(candidate, impl='candidate')\n", encoding="utf-8")
        found: dict[str, Any] = {"of": best["sha256"], "before": done.get("before"), "why": None}
        try:
            if not found["before"] or not Path(found["before"]).is_file():
                found["before"] = self._profiled(folder, f"{self.name}_baseline.py", LAUNCHES["baseline"], limit_s / 2)
            after = self._profiled(folder, "run_candidate.py", LAUNCHES["candidate"], limit_s / 2)
            found["why"] = to_plain(explain(self.run.session, after, against=found["before"]).difference)
            record(self.run.session, self.name, best["id"], why=found["why"])
        except ToolError as error:  # a machine that refuses its counters refuses them to all
            self.run.unprofiled += 1
            found |= {"of": None, "error": told(error)}
        seconds = self._keep("profile", began, found)
        said = found["why"]["why"] if found["why"] else found.get("error", "no difference")
        say(f"{self.name} profile", f"{seconds} s  {said[:300]}")

    def _profiled(self, folder: Path, script: str, launches: int, limit_s: float) -> str:
        return profile(self.run.session, ["python", script], tool="ncu", cwd=str(folder), ncu_launch_count=launches,
                       out_dir=str(self.run.out / "results" / "profiles"), timeout=limit_s,
                       ncu_set=self.run.options.ncu_set).report

    def original(self) -> None:
        """The best under hotkernel 0.1.1, by a target of its own making and its own verify, right after ours."""
        best, wheel, done = self.best, self.run.options.original, self.row.get("original", {})
        if best is None or wheel is None or self.name not in ORIGINALS or done.get("of") == best["sha256"]:
            return
        limit_s, began = self.run.time_for("original"), time.monotonic()
        shapes = comparisons.load(self.run.out / "state", best["id"]).shapes
        source = self.candidate(best["sha256"]).read_text(encoding="utf-8")
        with tempfile.TemporaryDirectory(prefix="original-") as work:
            try:
                made = Original(wheel, Path(work), self.name, (self.folder / "mykernels.py").read_text(encoding="utf-8"),
                                {name: "x".join(map(str, shape)) for name, shape in shapes.items()})
                answer = made.verify(source, "kept", **ORIGINAL_RUNS, timeout_s=limit_s / 2, limit_s=limit_s)
            except SystemExit as error:  # it made no target; the other targets go on
                answer = {"error": str(error)}
        kept = ("verdict", "speedup", "reason", "error")
        self._keep("original", began, {
            "of": best["sha256"], "id": best["id"], **ORIGINAL_RUNS, **{name: answer.get(name) for name in kept},
            **{f"{side}_ms": (answer.get(side) or {}).get("mean_ms") for side in ("baseline", "candidate")}})
        say(f"{self.name} original", f"{self.row['original']}"[:300])

    def compiled(self) -> None:
        """The best against the faster of torch.compile's modes, a target of its own; recorded, too."""
        best, baseline = self.best, self.folder / f"{self.name}_compiled_baseline.py"
        done = self.row.get("compiled", {})
        if best is None or not baseline.is_file() or (done.get("of") == best["sha256"] and done["verdict"]):
            return
        limit_s, began = self.run.time_for("compiled"), time.monotonic()
        row: dict[str, Any] = {"of": best["sha256"]}
        try:
            found = verify(self.run.session, str(self.candidate(best["sha256"])), str(baseline),
                           n=min(self.run.options.pairs, COMPILED_PAIRS), timeout=limit_s)
            record(self.run.session, f"{self.name}_compiled", found.id, note=best["note"], who=self.run.options.who)
            row |= {"id": found.id, "verdict": str(found.verdict), "speedup": found.speedup, "baseline": found.baseline_name,
                    "baselines_ms": found.baselines_ms, "reason": found.reason}
        except ToolError as error:
            row |= {"verdict": None, "speedup": None, "reason": told(error)}
        seconds = self._keep("compiled", began, row)
        against = f"against {row.get('baseline')}"
        say(f"{self.name} compiled", f"{row['verdict']} {row['speedup'] or ''} {against} {seconds} s  {row['reason']}"[:200])

    def _keep(self, part: str, began: float, found: dict[str, Any]) -> float:
        """Note what a part found, and all seconds of it so far: a best that changes is profiled, confirmed, compared again."""
        took_s = time.monotonic() - began
        self.run.took(part, took_s)
        seconds = round(self.row.get(part, {}).get("seconds", 0.0) + took_s, 2)
        self.row[part] = {**found, "seconds": seconds}
        self.run.keep(self.name, self.row)
        return seconds


def journals(folder: Path) -> dict[str, dict[str, Any]]:
    """What is known of each target, by name, in their order."""
    read = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in folder.glob("*.json")}
    return {name: read[name] for name in sorted(read, key=place)}


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def hypothesis(file: Path) -> str:
    """An attempt's docstring in one line."""
    return " ".join((ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or file.stem).split())


def place(name: str) -> tuple[int, str]:
    """Where a target stands among the others."""
    return (ORDER.index(name) if name in ORDER else len(ORDER), name)


def told(error: BaseException) -> str:
    """What went wrong, in a line of the journal."""
    return f"{error.message} {error.detail[-600:]}" if isinstance(error, ToolError) else f"{type(error).__name__}: {error}"[:900]


def say(what: str, text: str) -> None:
    print(f"{what:40s} {text}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=[], help="targets, or target/attempt")
    parser.add_argument("--parts", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--limit-s", type=float, default=86_400.0, help="all ends within so many seconds, but for the tables")
    parser.add_argument("--all", action="store_true", help="every attempt, also where the ceiling is reached")
    parser.add_argument("--pairs", type=int, default=7, help="most pairs of processes in a verify")
    parser.add_argument("--who", default="Claude", help="who honestly made the attempts")
    parser.add_argument("--ncu-set", default="", help="ncu's set; full has the stalls, and takes several times as long")
    parser.add_argument("--original", type=Path, help="a wheel of hotkernel 0.1.1")
    parser.add_argument("--targets", type=Path, default=ROOT / "speedrun")
    options = parser.parse_args()
    there = sorted((each.parent for each in options.targets.glob("*/attempts")), key=lambda each: place(each.name))
    wanted: dict[str, list[str]] = {}
    for each in options.only:
        name, _, attempt = each.partition("/")
        wanted.setdefault(name, []).extend([attempt] if attempt else [])
    unknown = set(wanted) - {each.name for each in there}
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(each.name for each in there)}")
    run, failed = Speedrun(options), 0
    try:
        if set(options.parts) - {"record"}:
            run.calibrate()
        targets = [Target(run, source) for source in there if not wanted or source.name in wanted]
        for part, target in ((part, target) for part in PARTS if part in options.parts for target in targets):
            try:
                only = (tuple(wanted.get(target.name, ())),) if part in ("first", "attempts") else ()
                getattr(target, part)(*only)
            except Late:
                raise
            except Exception as error:  # noqa: BLE001 - one target's trouble ends no other's
                failed += 1
                traceback.print_exc()
                say(f"{target.name} {part}", f"failed: {told(error)}"[:300])
    except Late:
        say("stopped", f"{run.left_s():.0f} s of {options.limit_s:.0f} are left; run again to go on")
    finally:
        run.write_table()
        run.session.nursery.close()
    tried = [each for row in run.rows().values() for each in row["attempts"]]
    pending = sum(bool(each["id"]) and not each["recorded"] for each in tried)
    if pending:
        say("not recorded yet", f"{pending} verified attempts: run again, or with --parts record")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
