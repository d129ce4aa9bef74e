"""Runs a command under nsys or ncu and gathers the report; knows a hotkernel target, ranks and shows nothing."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.machine import programs, reports
from hotkernel.machine.process import Finished
from hotkernel.profilers import kernel_names, ncu, nsys
from hotkernel.profilers.report import Findings
from hotkernel.session import Session
from hotkernel.tools import saved_reports
from hotkernel.tools.card_lock import card_held

CAPTURE = "HOTKERNEL_CAPTURE"  # asks the contract to mark the target's own calls
PYTHONS = frozenset({"python", "python3", "python.exe", "python3.exe"})
ENDINGS = {"nsys": (".nsys-rep", ".qdrep"), "ncu": (".ncu-rep",)}
_CONTRACT = re.compile(r"^[ \t]*(?:from|import)[ \t]+hotkernel_contract\b", re.M)
_BASELINE = re.compile(r"^[ \t]*(?:from|import)[ \t]+(\w+_baseline)\b", re.M)


@dataclass(frozen=True)
class Ran:
    """A profiler's run: what was made and what it says."""

    report: Path
    database: Path | None  # nsys: the export that was read
    found: Findings
    finished: Finished
    program: Path
    version: str | None
    is_target: bool
    waited_for_gpu_s: float


@dataclass(frozen=True)
class Filters:
    """What of a command ncu is to profile."""

    kernel_regex: str
    launch_count: int
    launch_skip: int
    metric_set: str

    def __post_init__(self) -> None:
        if self.launch_count < 0 or self.launch_skip < 0:
            raise ToolError("ncu_launch_count and ncu_launch_skip count launches", fix="give 0 or more")
        if self.metric_set and not re.fullmatch(r"[A-Za-z0-9_]+", self.metric_set):
            raise ToolError(f"ncu_set={self.metric_set!r} is no set's name", fix="basic, detailed or full")
        try:
            re.compile(self.kernel_regex)
        except re.error as error:
            raise ToolError(f"ncu_kernel_regex cannot be read: {error}", fix="escape what is literal") from None


def profile(
    session: Session, tool: str, cmd: Sequence[str], cwd: str, out_dir: str, timeout: float, filters: Filters
) -> Ran:
    """Run `cmd` under `tool`. Raises ToolError that says why there is no report, where there is none."""
    argv, script = _command(session, cmd, cwd)
    target = script is not None and is_target(script)
    program = programs.find(tool, session.environment)
    output = _new_output(session.path(out_dir, cwd=cwd or None), tool, script or Path(argv[0]))
    asked = _asked(tool, program, argv, output, filters, target)
    finished, waited_s = run(session, tool, asked, cwd, timeout, target)
    made, database, found = _gathered(session, tool, program, output, finished, filters, target)
    version = programs.version(program)
    spelled = ".".join(map(str, version)) if version else None
    return Ran(made, database, found, finished, program, spelled, target, waited_s)


def run(
    session: Session, what: str, argv: list[str], cwd: str, timeout: float, target: bool
) -> tuple[Finished, float]:
    """Run it to its end, alone on the card; a target is asked to mark its own calls. With the seconds waited."""
    environment = {name: value for name, value in session.environment.items() if name != CAPTURE}
    if target:
        environment[CAPTURE] = "1"
    folder = session.path(cwd) if cwd else session.root
    try:
        with card_held(session) as waited_s:
            return session.job.run(argv, timeout_s=timeout, cwd=folder, env=environment, watch=_telling(session, what)), waited_s
    except ToolError as error:
        if what == "ncu" and "did not end" in error.message:
            raise ToolError(error.message, fix=ncu.REPLAY_HINT, detail=error.detail) from None
        raise


def _telling(session: Session, what: str) -> Callable[[float], None]:
    return lambda seconds: session.progress(f"{what}: running for {seconds:.0f} s", None, None)


def is_target(script: Path) -> bool:
    """Whether a script is a hotkernel target: it imports the contract, or a sibling baseline that does."""
    text = reports.text(script)
    if _CONTRACT.search(text):
        return True
    siblings = (script.with_name(f"{name}.py") for name in _BASELINE.findall(text))
    return any(sibling.is_file() and _CONTRACT.search(reports.text(sibling)) for sibling in siblings)


def warnings(session: Session, tool: str, finished: Finished) -> list[str]:
    """What a reader of the report must know of the run."""
    said = []
    if finished.returncode:
        said.append(f"the command ended with exit status {finished.returncode}")
    pipe = session.environment.get("CUDA_MPS_PIPE_DIRECTORY") or "/tmp/nvidia-mps"
    if tool == "ncu" and Path(pipe, "control").exists():
        said.append("an MPS daemon runs here: ncu's counters then mix several clients")
    for note in ncu.warnings(finished.stdout + finished.stderr) if tool == "ncu" else ():
        said.append(f"ncu warned: {kernel_names.cut(note)}")
    return said


def _command(session: Session, cmd: Sequence[str], cwd: str) -> tuple[list[str], Path | None]:
    """The command with its interpreter, and the Python script in it, if one is named."""
    if isinstance(cmd, str):
        raise ToolError("cmd is a list", fix='give ["python", "script.py"]: no shell takes it apart')
    if not cmd or not cmd[0] or cmd[0].startswith("-"):
        raise ToolError("cmd names no program", fix='give it as a list, for example ["python", "script.py"]')
    argv = [str(session.python()) if cmd[0] in PYTHONS else cmd[0], *cmd[1:]]
    named = [part for part in cmd if part.endswith(".py") and not part.startswith("-")]
    script = session.path(named[0], cwd=cwd or None) if named else None
    return argv, script if script is not None and script.is_file() else None


def _new_output(folder: Path, tool: str, subject: Path) -> Path:
    """A path without ending that no report has yet."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"the folder {folder} cannot be made: {error.strerror}", fix="give another out_dir") from None
    stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%dT%H%M%SZ")
    stem = f"{tool}-{re.sub(r'[^A-Za-z0-9_-]', '_', subject.stem)[:60]}-{stamp}"
    number = 1
    while any(folder.glob(f"{stem}*")):
        number += 1
        stem = f"{stem.split('~')[0]}~{number}"
    return folder / stem


def _asked(tool: str, program: Path, argv: list[str], output: Path, filters: Filters, target: bool) -> list[str]:
    if tool == "nsys":
        version = programs.version(program)
        return nsys.command(str(program), argv, str(output), version=version, only_capture_range=target)
    return ncu.command(
        str(program), argv, str(output), kernel_regex=filters.kernel_regex, launch_count=filters.launch_count,
        launch_skip=filters.launch_skip, metric_set=filters.metric_set, only_capture_range=target,
    )


def _gathered(
    session: Session, tool: str, program: Path, output: Path, finished: Finished, filters: Filters, target: bool
) -> tuple[Path, Path | None, Findings]:
    """The report that was made, the database it was read from, and what it says."""
    said = finished.stdout + finished.stderr
    made = next((path for end in ENDINGS[tool] if (path := output.with_name(output.name + end)).is_file()), None)
    if tool == "nsys":
        stream = output.with_name(output.name + ".qdstrm")
        if made is None:
            raise nsys.no_report(said, str(stream) if stream.is_file() else None, target, finished.returncode)
        database = saved_reports.export(session, program, made, output.with_name(output.name + ".sqlite"))
        return made, database, saved_reports.read_database(database)
    found = saved_reports.read_ncu_report(session, made) if made else None
    if made is None or found is None or not found.kernels:
        raise ncu.no_report(said, finished.returncode, kernel_regex=filters.kernel_regex, only_capture_range=target)
    return made, None, found
