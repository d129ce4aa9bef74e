"""Tries a target's files in the user's Python before they are left behind; writes only into the folder it is given."""

from __future__ import annotations

import json
import os
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.harness import sources
from hotkernel.machine.process import Finished
from hotkernel.records.files import write_whole
from hotkernel.scaffold import rendering, vendor
from hotkernel.scaffold.blueprint import Blueprint, Seen, near_path
from hotkernel.session import Session

TRIAL_ITERS = 2  # of the plain line: it must come, its time is not looked at
FIX = "change what it names and call again; nothing was written"


@dataclass(frozen=True)
class Tried:
    """What a target turned out to be when it ran."""

    plan: Blueprint  # with how the function is called
    device: str
    rotate: tuple[str, ...]
    inputs: dict[str, str]
    output: str
    torch: str
    loaded: dict[str, str]  # the user's own files that the baseline loads -> SHA-256
    is_copy: bool  # of the candidate
    warnings: tuple[str, ...]


def try_out(session: Session, plan: Blueprint, folder: Path, trial: Path, timeout_s: float) -> Tried:
    """Run the target from the folder `trial`, which lies in `folder`, where it shall lie.

    Raises ToolError, with the contract's own sentence where it is the contract that refuses.
    """
    deadline = time.monotonic() + timeout_s
    _surround(folder, trial)
    short = replace(plan, settings={**plan.settings, "iters": TRIAL_ITERS})
    names = plan.file_names
    write_whole(trial / names["contract"], vendor.contract_text())
    write_whole(trial / names["baseline"], rendering.baseline_text(short, trial))
    session.progress("trying the target: loading it, calling it, and trying plain wrong answers on its check", None, None)
    said = _acceptance(session, plan, folder, trial, deadline)
    called = said["call"]
    seen = Seen(tuple(called["positional"]), tuple(called["keywords"]), tuple(called["constants"]), called["module"])
    plan, short = replace(plan, seen=seen), replace(short, seen=seen)
    write_whole(trial / names["candidate"], rendering.candidate_text(short, is_copy=plan.function.file is not None))
    session.progress("running the candidate's own line", None, None)
    is_copy, warning = _candidate(session, short, folder, trial, deadline)
    loaded = {str(_final(Path(path), folder, trial)): sha256 for path, sha256 in said["loaded"].items()}
    limited = [f"the check cannot use inputs of the kind {kind!r}: on them {why}" for kind, why in said["limited_rounds"].items()]
    return Tried(plan, said["device"], tuple(said["rotate"]), said["inputs"], said["output"], said["torch"], loaded, is_copy,
                 (*filter(None, [warning]), *limited))


def _surround(folder: Path, trial: Path) -> None:
    """Put copies of the folder's sources around the trial, as verify does for a candidate."""
    first = next((file for file in sorted(folder.iterdir()) if file.is_file() and file.suffix in sources.KEPT), None)
    if first is None:
        return
    try:
        sources.snapshot(first, trial)
    except OSError as error:
        raise ToolError(f"{error.filename or folder} cannot be copied: {error.strerror or error}",
                        fix="give read permission on it, or another out_dir") from None


def _acceptance(session: Session, plan: Blueprint, folder: Path, trial: Path, deadline: float) -> dict[str, Any]:
    """The contract's own judgement of the baseline."""
    answer = trial / ".answer.json"
    script = vendor.package_folder() / "acceptance.py"
    finished = _run(session, [script, trial / plan.file_names["baseline"], answer], folder, trial, deadline)
    try:
        said: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        raise ToolError(f"the target ended the Python that tried it (exit status {finished.returncode})",
                        fix="a crash, too little memory or a full disk does this; the detail may say. Nothing was written",
                        detail=finished.tail()) from None
    if "refused" in said:
        raise ToolError(_named(said["refused"], plan, folder, trial), fix=_fix(said["refused"], finished),
                        detail=finished.stderr.strip()[-2000:].replace(str(trial), str(folder)))
    return said


def _named(refused: str, plan: Blueprint, folder: Path, trial: Path) -> str:
    """The contract's sentence, with the user's own paths instead of those that lead out of the trial."""
    for place in filter(None, (plan.function, plan.reference, plan.derive)):
        if place.file:
            refused = refused.replace(near_path(place.file, trial), str(place.file))
    return refused.replace(str(trial), str(folder))


def _fix(refused: str, finished: Finished) -> str:
    if "No module named" in refused:
        return (f"install it for {finished.argv[0]}, or set HOTKERNEL_PYTHON to the Python that has it; a file of your own is "
                f"named by its path, like ./mykernels.py:fused. Nothing was written")
    if "missing a required argument" in refused:
        return "describe each argument behind the first with extra: in a terminal --extra w:1024; nothing was written"
    return FIX


def _candidate(session: Session, plan: Blueprint, folder: Path, trial: Path, deadline: float) -> tuple[bool, str]:
    """Run the candidate's own line; a copy that does not run where it lies gives way to a call of the original."""
    if not plan.function.file:
        _line(session, plan, folder, trial, deadline)
        return False, ""
    try:
        _line(session, plan, folder, trial, deadline)
        return True, ""
    except ToolError as error:
        write_whole(trial / plan.file_names["candidate"], rendering.candidate_text(plan, is_copy=False))
        _line(session, plan, folder, trial, deadline)
        return False, (f"a copy of {plan.function.file.name} does not run in {folder} ({error.message[:300]}), so the candidate "
                       f"calls the original: write the new function into it")


def _line(session: Session, plan: Blueprint, folder: Path, trial: Path, deadline: float) -> None:
    """The candidate under plain python must print its line and be right, being the baseline still."""
    name = plan.file_names["candidate"]
    finished = _run(session, [trial / name], folder, trial, deadline)
    lines = [_object(line) for line in finished.stdout.splitlines()]
    said = next((line for line in reversed(lines) if line and line.get("target") == plan.target), None)
    if said is None:
        raise ToolError(f"{name} printed no line (exit status {finished.returncode}): {_last(finished)}", fix=FIX,
                        detail=finished.tail())
    if said.get("ok") is not True or finished.returncode != 0:
        raise ToolError(f"{name}, which is still the baseline, fails its check: {said.get('why') or _last(finished)}", fix=FIX,
                        detail=finished.tail())


def _run(session: Session, words: list[Path], folder: Path, trial: Path, deadline: float) -> Finished:
    kept = session.environment.get("PYTHONPATH", "")
    # the folder itself last: a package of the user's that lies there is found as it will be, behind the copies
    path = os.pathsep.join([*filter(None, [kept]), str(folder)])
    environment = {**session.environment, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    environment.pop("HOTKERNEL_CAPTURE", None)
    return session.job.run([session.python(), *words], cwd=trial, env=environment,
                           timeout_s=max(0.1, deadline - time.monotonic()),
                           watch=lambda seconds: session.progress(f"trying the target, {seconds:.0f} s", None, None))


def _object(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _last(finished: Finished) -> str:
    lines = finished.stderr.strip().splitlines()
    return lines[-1][:300] if lines else "it said nothing"


def _final(path: Path, folder: Path, trial: Path) -> Path:
    """Where a file that was loaded from the trial will lie, or lies."""
    here = trial.resolve()
    return folder / path.relative_to(here) if path.is_relative_to(here) else path


def remove(trial: Path) -> None:
    """Leave nothing of a trial."""
    shutil.rmtree(trial, ignore_errors=True)
