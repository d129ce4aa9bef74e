"""What the card, the profilers and the SASS say of the examples, by the product's own tools, held against each other.

    python benchmarks/evidence.py --out DIR [--nsys-libs FOLDER] [--reports FOLDER] [--limit-s 140] [--only STEP …]

On a card. Of examples/01 to 03: verify, torch_trace, ncu (full, with its sources, of both sides; of the first basic, too),
nsys, disasm, explain, and the difference from the baseline's report; of two planted kernels (one that spills, one with a
matrix product): ncu and disasm. FOLDER of --nsys-libs holds libdw.so.1 and libelf.so.1, as from Debian's libdw1 and libelf1
unpacked, where nsys's importer misses them. A step that --limit-s leaves no time for is named, not run.

DIR/evidence.json holds every answer's facts and every check, DIR/evidence.md the tables, DIR/raw each tool's whole answer
and nvidia-smi's words, with this machine's own paths and the card's serial words left out. Exit status 1: a check failed.
"""

from __future__ import annotations

import argparse
import collections
import datetime
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import evidence_checks as checks

from hotkernel import __version__
from hotkernel.errors import ToolError
from hotkernel.machine import reports
from hotkernel.records.files import write_whole
from hotkernel.schema.plain import to_plain
from hotkernel.schema.profile import TopKernels
from hotkernel.session import Session
from hotkernel.tools import disassembly, gpu, kernels, speed

EXAMPLES = {"rmsnorm": "01_rmsnorm", "softmax": "02_softmax", "gemv": "03_gemv"}
BASIC_TOO = "rmsnorm"
PLANTED = ROOT / "tests" / "fixtures" / "sass" / "gpu_kernels.py"
PLANTED_NAMES = ("spilling_kernel", "dot_kernel")
SMI = {
    "nvidia-smi.txt": ["nvidia-smi"],
    "nvidia-smi-query.csv": ["nvidia-smi", "--format=csv", "--query-gpu=name,driver_version,memory.total,power.limit,compute_cap,"
                             "clocks.max.sm,clocks.max.memory,clocks.sm,temperature.gpu,mig.mode.current,ecc.mode.current"],
}
BLOCKS_BY_REGISTERS = "launch__occupancy_limit_registers"
SECONDS = {"verify": 8, "trace": 7, "ncu": 9, "nsys": 10, "ncu_full": 11, "baseline_full": 12, "planted": 14}  # about
LAUNCHES = {"ncu": 10, "ncu_full": 3, "baseline_full": 10}  # a full launch is replayed 38 times; an eager call has many
STEP_TIMEOUT_S = 75.0


class Run:
    """One run: its session on a copy of the examples, what was said so far, and the time it has."""

    def __init__(self, options: argparse.Namespace, work: Path) -> None:
        self.options, self.work, self.out = options, work, options.out.resolve()
        self.began = time.monotonic()
        self.said: dict[str, dict[str, Any]] = {}  # example -> step -> answer
        self.answers: dict[str, dict[str, Any]] = {}  # step -> seconds, characters, or what went wrong
        self.left_out: list[str] = []
        self.reports: dict[tuple[str, str], str] = {}  # example, step -> the .ncu-rep
        environment = {**os.environ, "HOTKERNEL_STATE_DIR": str(work / "state"), "TRITON_CACHE_DIR": str(work / "triton")}
        environment["HOTKERNEL_PYTHON"] = environment.get("HOTKERNEL_PYTHON") or sys.executable
        if options.nsys_libs:
            folders = sorted({str(path.resolve().parent) for path in options.nsys_libs.rglob("libdw.so.1")})
            environment["LD_LIBRARY_PATH"] = os.pathsep.join([*folders, *filter(None, [os.environ.get("LD_LIBRARY_PATH")])])
        self.session = Session(root=work, environment=environment)
        for folder in EXAMPLES.values():
            shutil.copytree(ROOT / "examples" / folder, work / folder, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(PLANTED, work)

    def step(self, subject: str, step: str, call: Callable[[], Any], seconds: float = 3.0) -> Any:
        """Run one tool where there is time for it; keep its whole answer, or its error, and give the answer."""
        name, left = f"{subject}.{step}", self.options.limit_s - (time.monotonic() - self.began)
        if self.options.only and not {step, subject, name} & set(self.options.only):
            return None
        if left < seconds:
            self.left_out.append(f"{name}: {left:.0f} s were left, it takes about {seconds:.0f}")
            return None
        began = time.monotonic()
        try:
            answer = call()
        except ToolError as error:
            told = {"error": error.message, "fix": error.fix, "detail": error.detail[-2000:]}
            self._keep(name, told, began, error=error.message)
            return None
        except Exception as error:  # noqa: BLE001 - a tool's bug must not cost what the others see on a lent card
            self._keep(name, {"error": repr(error), "traceback": traceback.format_exc()}, began, error=repr(error))
            return None
        plain = to_plain(answer)
        self.said.setdefault(subject, {})[step] = plain
        self._keep(name, plain, began)
        return answer

    def _keep(self, name: str, plain: Any, began: float, error: str | None = None) -> None:
        text = self.cleaned(json.dumps(plain, indent=1, ensure_ascii=False))
        kept = {"seconds": round(time.monotonic() - began, 2), "characters": len(json.dumps(plain))}
        self.answers[name] = kept if error is None else {**kept, "error": self.cleaned(error)}
        write_whole(self.out / "raw" / f"{name}.json", (text + "\n").encode("utf-8"))
        print(f"{time.monotonic() - self.began:6.1f} s  {name:24s} {kept['seconds']:6.2f} s  {error or ''}", flush=True)
        self.write()

    def cleaned(self, text: str) -> str:
        """`text` without paths of this machine and without the card's own numbers."""
        for path, word in ((self.work, "WORK"), (self.out, "OUT"), (ROOT, "REPOSITORY"), (Path.home(), "HOME"),
                           (tempfile.gettempdir(), "TMP")):
            text = text.replace(str(path), word) if str(path) != "/" else text
        return re.sub(r"\b(GPU|MIG)-[0-9a-f]{8}-[0-9a-f-]+", r"\1-...", text)

    def write(self) -> None:
        """Both files, anew, so that a run that is stopped has said what it saw."""
        found = self.found()
        write_whole(self.out / "evidence.json", (self.cleaned(json.dumps(found, indent=1)) + "\n").encode("utf-8"))
        write_whole(self.out / "evidence.md", self.cleaned("\n".join(checks.as_markdown(found)) + "\n").encode("utf-8"))

    def found(self) -> dict[str, Any]:
        """What was seen so far, and what of it agrees."""
        held = [check for name in EXAMPLES for check in checks.of_example(name, self.said.get(name, {}))]
        held += checks.of_planted(self.said.get("planted", {}))
        held += checks.of_answers({name: kept for name, kept in self.answers.items() if "error" not in kept})
        return {
            "made_by": "benchmarks/evidence.py", "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "machine": self.machine(), "checks": checks.as_rows(held),
            "times_us": {name: checks.times_us(self.said.get(name, {})) for name in EXAMPLES},
            "steps": self.answers, "left_out": self.left_out, "seconds": round(time.monotonic() - self.began, 1),
        }

    def machine(self) -> dict[str, Any]:
        """The card and the versions, as far as the answers name them."""
        info = self.said.get("machine", {}).get("gpu_info", {})
        card = (info.get("gpus") or [{}])[0]
        ran = [answer for of in self.said.values() for answer in of.values()]
        versions = next((each["versions"] for each in ran if each.get("versions")), None) or {}
        tools = {each["tool"]: each["program_version"] for each in ran if each.get("program_version")}
        return {"gpu": card.get("name"), "driver": info.get("driver"), "cuda": info.get("cuda_version"),
                "power_limit_w": card.get("power_limit_w"), "platform": info.get("platform"), "hotkernel": __version__,
                "python": platform.python_version(), "torch": versions.get("torch"), "triton": versions.get("triton"), **tools}


def main(argv: list[str] | None = None) -> int:
    """One run; 1 where a check failed."""
    options = arguments(argv)
    with tempfile.TemporaryDirectory(prefix="hotkernel-evidence-", ignore_cleanup_errors=True) as folder:
        run = Run(options, Path(folder).resolve())
        try:
            everything(run)
        finally:
            run.session.nursery.close()
        run.write()
        found = run.found()
    words = collections.Counter(row["word"] for row in found["checks"])
    print(f"{found['seconds']} s; " + ", ".join(f"{count} {word}" for word, count in sorted(words.items())))
    for row in found["checks"]:
        if row["holds"] is False:
            print(f"FAILED {row['subject']}: {row['claim']}: {row['seen']}")
    return 1 if any(row["holds"] is False for row in found["checks"]) else 0


def everything(run: Run) -> None:
    """What is held against each other first, what takes longest last."""
    of_machine(run)
    for name in EXAMPLES:
        judged(run, name)
    planted(run)
    for name in EXAMPLES:
        nsys(run, name)
    for name in EXAMPLES:
        explained(run, name)
    for name in EXAMPLES:
        differing(run, name)


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).split("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for evidence.json, evidence.md and raw/")
    parser.add_argument("--nsys-libs", type=Path, help="folder with libdw.so.1 and libelf.so.1 for nsys's importer")
    parser.add_argument("--reports", type=Path, help="folder to keep the .ncu-rep and .nsys-rep in (default: they go)")
    parser.add_argument("--limit-s", type=float, default=140.0, help="seconds; steps that do not fit are left out")
    parser.add_argument("--only", nargs="*", help="steps to run: rmsnorm, rmsnorm.verify, nsys …")
    options = parser.parse_args(argv)
    if options.nsys_libs and not any(options.nsys_libs.rglob("libdw.so.1")):
        parser.error(f"no libdw.so.1 below {options.nsys_libs}")
    return options


def of_machine(run: Run) -> None:
    """nvidia-smi's own words beside gpu_info's."""
    for file, asked in SMI.items():
        try:
            done = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=False, errors="replace")
            text = done.stdout + done.stderr
        except (OSError, subprocess.TimeoutExpired) as error:
            text = f"{error}\n"
        write_whole(run.out / "raw" / file, run.cleaned(text).encode("utf-8"))
    run.step("machine", "gpu_info", lambda: gpu.gpu_info(run.session))


def judged(run: Run, name: str) -> None:
    """The candidate's time by verify, torch_trace and ncu, and its SASS."""
    folder, candidate = EXAMPLES[name], f"{name}_candidate.py"
    run.step(name, "verify", lambda: speed.verify(run.session, candidate, f"{name}_baseline.py", cwd=folder,
                                                  timeout=STEP_TIMEOUT_S), SECONDS["verify"])
    run.step(name, "trace", lambda: kernels.torch_trace(run.session, candidate, cwd=folder,
                                                        timeout=STEP_TIMEOUT_S), SECONDS["trace"])
    if name == BASIC_TOO:
        profiled(run, name, "ncu", candidate)
    profiled(run, name, "ncu_full", candidate, "full")
    run.step(name, "disasm", lambda: disassembly.disasm(run.session, "triton-cache", kernel=f"{name}_kernel"))


def explained(run: Run, name: str) -> None:
    """The candidate's full report: its kernels and its hottest lines."""
    if after := run.reports.get((name, "ncu_full")):
        run.step(name, "explain", lambda: disassembly.explain(run.session, after))
        run.step(name, "top_kernels", lambda: kernels.top_kernels(run.session, after))


def differing(run: Run, name: str) -> None:
    """What changed from the baseline's full report to the candidate's."""
    before = profiled(run, name, "baseline_full", f"{name}_baseline.py", "full")
    after = run.reports.get((name, "ncu_full"))
    if before and after:
        run.step(name, "difference", lambda: disassembly.explain(run.session, after, against=before))


def planted(run: Run) -> None:
    """The kernel that spills and the one with a matrix product: one report, and the SASS of each."""
    report = profiled(run, "planted", "ncu", PLANTED.name, "full", ["spill", "1"], "spilling|dot")
    for kernel in PLANTED_NAMES:
        run.step("planted", f"disasm_{kernel}",
                 lambda kernel=kernel: disassembly.disasm(run.session, "triton-cache", kernel=kernel))
        if report:
            run.step("planted", f"explain_{kernel}",
                     lambda kernel=kernel: disassembly.explain(run.session, report, kernel=kernel))


def profiled(run: Run, name: str, step: str, script: str, metric_set: str = "", args: list[str] | None = None,
             regex: str = "") -> str | None:
    """A report of ncu by the product's own `profile`, and of it what limits the blocks on a multiprocessor."""
    ran = run.step(name, step, lambda: kernels.profile(
        run.session, ["python", script, *(args or [])], tool="ncu", out_dir=str(_reports(run)), cwd=EXAMPLES.get(name, ""),
        timeout=STEP_TIMEOUT_S, ncu_set=metric_set, ncu_kernel_regex=regex, ncu_launch_count=LAUNCHES[step],
    ), SECONDS["planted" if name == "planted" else step])
    if not ran:
        return None
    run.reports[name, step] = ran.report
    if step != "baseline_full" and reports.has_ncu_report():
        run.step(name, "limits", lambda: limits(run, ran.report))
    return ran.report


def nsys(run: Run, name: str) -> None:
    """nsys by `profile`; where its importer fails, the stream is imported as the product's own advice says."""
    ran = run.step(name, "nsys", lambda: kernels.profile(
        run.session, ["python", f"{name}_candidate.py"], tool="nsys", out_dir=str(_reports(run)), cwd=EXAMPLES[name],
        timeout=STEP_TIMEOUT_S), SECONDS["nsys"])
    streams = sorted(_reports(run).glob(f"nsys-{name}_candidate*.qdstrm"))
    if ran or not streams or not run.options.nsys_libs:
        return
    importer = next(iter(sorted(Path("/opt/nvidia").glob("nsight-*/*/host*/**/QdstrmImporter"), reverse=True)), None)
    if importer is None:
        return
    libraries = os.pathsep.join([str(importer.parent), run.session.environment["LD_LIBRARY_PATH"]])

    def imported() -> TopKernels:
        run.session.job.run([importer, "-i", streams[-1]], timeout_s=STEP_TIMEOUT_S,
                            env={**run.session.environment, "LD_LIBRARY_PATH": libraries})
        return kernels.top_kernels(run.session, str(streams[-1].with_suffix(".nsys-rep")))

    if found := run.step(name, "nsys_imported", imported):
        run.said[name]["nsys"] = {**run.said[name]["nsys_imported"], "top": to_plain(found.kernels)}


def limits(run: Run, report: str) -> dict[str, float]:
    """Blocks that a multiprocessor holds as far as registers go, by ncu's own metric, a second reading of its report."""
    actions = reports.ncu_actions(run.session.job, Path(report), [BLOCKS_BY_REGISTERS])
    return {each["function"]: each["metrics"][BLOCKS_BY_REGISTERS][0] for each in actions
            if BLOCKS_BY_REGISTERS in each["metrics"]}


def _reports(run: Run) -> Path:
    folder: Path = run.options.reports.resolve() if run.options.reports else run.work / "reports"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    sys.exit(main())
