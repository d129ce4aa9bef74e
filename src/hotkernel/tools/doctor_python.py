"""doctor's checks of the user's Python: the interpreter, torch, Triton, and what a verify's processes need of each other."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.machine.process import Finished
from hotkernel.scaffold import vendor
from hotkernel.schema.doctor import CheckStatus, DoctorCheck
from hotkernel.session import Session

PROBES_S = 420.0  # all probes together; each has a bound of its own
SET_PYTHON = "set HOTKERNEL_PYTHON to the python of the environment that has your torch"
NO_SUCH_KERNEL = "no kernel image"
IPC_FIX = (
    "inputs and outputs are copied through the host inside the timed interval instead, on both sides alike, which hides small "
    "differences. WSL2 has no CUDA IPC; a container has where its processes share a pid and an ipc namespace"
)
READ_FIX = (
    "outputs are copied inside the timed interval instead, on both sides alike. Container: start it with "
    "--cap-add=SYS_PTRACE. Elsewhere: `sysctl kernel.yama.ptrace_scope=1` (3 forbids it)"
)
FENCE_FIX = (
    "nothing must be done: verdicts then say assurance: cooperative instead of process, and do not rest on it. Landlock comes "
    "with Linux 5.13 (for signals 6.12) where /sys/kernel/security/lsm names it; a container's seccomp profile must let it pass"
)


def python_checks(session: Session, scratch: Path, has_card: bool) -> list[DoctorCheck]:
    """Every check of the interpreter, from one run of the probes; Triton's freshly compiled files are left in `scratch`."""
    if not hasattr(os, "fork"):
        return [DoctorCheck("python", CheckStatus.FAIL, "native Windows cannot fork processes, as verify does",
                            "run hotkernel inside WSL2")]
    try:
        python = session.python()
    except ToolError as error:
        return [DoctorCheck("python", CheckStatus.FAIL, error.message, error.fix)]
    with tempfile.TemporaryDirectory(prefix="hotkernel-probes-") as folder:
        answers_file = Path(folder) / "answers.json"
        script = vendor.package_folder() / "probes.py"
        finished = session.job.run([python, script, answers_file, scratch], timeout_s=PROBES_S, env=session.environment,
                                   watch=lambda seconds: session.progress(f"trying torch, {seconds:.0f} s", None, None))
        try:
            said: dict[str, Any] = json.loads(answers_file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return [_broken(python, finished)]
    answers = said["answers"]
    found = [_interpreter(session, python, said), _torch(answers["torch"], has_card)]
    if "triton" in answers:
        found.append(_of_card("triton", answers["triton"], _triton_fix(answers)))
    found += [_as_warning(name, answers[name], fix) for name, fix in (("cuda_ipc", IPC_FIX), ("read_process", READ_FIX))
              if name in answers]
    return [*found, _as_warning("confinement", answers["confinement"], FENCE_FIX)]


def _interpreter(session: Session, python: Path, said: dict[str, Any]) -> DoctorCheck:
    named = session.environment.get("HOTKERNEL_PYTHON", "").strip()
    version = tuple(int(part) for part in said["python"].split("."))
    if version < (3, 9):
        return DoctorCheck("python", CheckStatus.FAIL, f"{python} is Python {said['python']}, and 3.9 is the oldest",
                           "set HOTKERNEL_PYTHON to a newer python with your torch")
    found = "hotkernel's own" if str(python) == sys.executable else "the first on PATH that has torch"
    if named.startswith("${"):
        return DoctorCheck("python", CheckStatus.WARNING, f"HOTKERNEL_PYTHON arrived as {named[:60]}, which the client did not "
                           f"fill in; {python} is used, {found}", "give its value in the client's config")
    how = "named by HOTKERNEL_PYTHON" if named else f"{found}; HOTKERNEL_PYTHON is not set"
    return DoctorCheck("python", CheckStatus.OK, f"{python}, Python {said['python']}, {how}")


def _torch(answer: dict[str, Any], has_card: bool) -> DoctorCheck:
    facts, seen = answer["facts"], answer["seen"]
    if answer["status"] == "fail":
        fix = "use a torch that is built for this card's compute capability" if NO_SUCH_KERNEL in seen else SET_PYTHON
        return DoctorCheck("torch", CheckStatus.FAIL, seen, "use a CUDA or CPU build of torch" if facts.get("hip") else fix)
    if not facts.get("card"):
        status = CheckStatus.FAIL if has_card else CheckStatus.OK
        fix = "install a torch built for CUDA, no newer than the driver's CUDA (gpu_info shows it), or " + SET_PYTHON
        return DoctorCheck("torch", status, f"{seen}; targets are timed on the CPU", fix if has_card else None)
    return DoctorCheck("torch", CheckStatus.OK, f"{seen}; its import takes {facts['import_s']:.1f} s")


def _triton_fix(answers: dict[str, Any]) -> str:
    seen = answers.get("triton", {}).get("seen", "")
    if "compiler" in seen.lower() or "gcc" in seen:
        return "Triton needs a C compiler on PATH, or named by CC: install gcc or clang"
    if "Python.h" in seen:
        return "Triton's launcher needs Python's headers: install python3-dev for this Python"
    return "reinstall the Triton that this torch asks for (`pip install --force-reinstall torch`); torch's own kernels work"


def _of_card(name: str, answer: dict[str, Any], fix: str) -> DoctorCheck:
    failed = answer["status"] == "fail"
    return DoctorCheck(name, CheckStatus(answer["status"]), answer["seen"], fix if failed else None)


def _as_warning(name: str, answer: dict[str, Any], fix: str) -> DoctorCheck:
    """A check of something that can be done without."""
    failed = answer["status"] == "fail"
    return DoctorCheck(name, CheckStatus.WARNING if failed else CheckStatus(answer["status"]), answer["seen"],
                       fix if failed else None)


def _broken(python: Path, finished: Finished) -> DoctorCheck:
    last = finished.tail(400).splitlines()[-1]
    return DoctorCheck("python", CheckStatus.FAIL, f"{python} ended with exit status {finished.returncode}: {last}", SET_PYTHON)
