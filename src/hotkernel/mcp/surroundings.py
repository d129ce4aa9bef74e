"""What a call through the agent's door may touch: its roots, and the part of the environment that children see."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.harness.zygote import Nursery
from hotkernel.machine.supervised_job import SupervisedJob
from hotkernel.session import Progress, Session, windows_path
from hotkernel.tool import Tool

# A child may see these, whole names or beginnings; everything else stays with the server.
_NAMES = frozenset(re.findall(
    r"\w+",
    "PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM TMPDIR TEMP TMP PWD VIRTUAL_ENV CC CXX CUDACXX NVCC "
    "LD_LIBRARY_PATH LIBRARY_PATH CPATH MAX_JOBS SYSTEMROOT WINDIR COMSPEC PATHEXT USERPROFILE APPDATA "
    "LOCALAPPDATA PROGRAMDATA PROGRAMFILES SSL_CERT_FILE SSL_CERT_DIR WSL_DISTRO_NAME WSLENV",
))
_BEGINNINGS = ("LC_", "XDG_", "CUDA_", "CUPTI_", "NVIDIA_", "NSYS_", "NV_", "NCCL_", "TRITON_", "TORCH_",
               "TORCHINDUCTOR_", "PYTORCH_", "PYTHON", "CONDA_", "OMP_", "MKL_", "OPENBLAS_", "HF_HOME", "HOTKERNEL_")
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(?:^|_)(?:KEY|AUTH|PAT)(?:$|_)|APIKEY")
_UNSET = re.compile(r"\$\{[^}]*\}")  # what a client leaves of a variable that it does not know


class OutsideRoots(ToolError):
    """A path at which a file would be written lies outside the folders that the server may write to."""

    code = "bad_path"


@dataclass(frozen=True)
class Surroundings:
    """The roots and the environment of one server."""

    roots: tuple[Path, ...]
    environment: Mapping[str, str]
    nursery: Nursery = field(default_factory=lambda: Nursery(is_served=True))  # ends with the server, by its closed sockets

    @classmethod
    def of(cls, environment: Mapping[str, str], folder: Path) -> Surroundings:
        """Read from the environment: HOTKERNEL_ROOTS, else CLAUDE_PROJECT_DIR, else the working folder."""
        known = {name: value for name, value in environment.items() if not _UNSET.fullmatch(value.strip())}
        named = known.get("HOTKERNEL_ROOTS", "").split(os.pathsep)
        roots = [Path(windows_path(root) or root).expanduser() for root in named if root.strip()]
        if not roots and known.get("CLAUDE_PROJECT_DIR"):
            roots = [Path(known["CLAUDE_PROJECT_DIR"])]
        return cls(tuple(root.resolve() for root in roots or [folder]), known)

    def session(self, *, progress: Progress, job: SupervisedJob) -> Session:
        """What one tool call gets."""
        return Session(root=self.roots[0], environment=self.for_children(self.environment), progress=progress, job=job,
                       nursery=self.nursery)

    def job(self) -> SupervisedJob:
        """A job whose processes see what they may see, and end with the server."""
        return SupervisedJob(screen=self.for_children)

    def for_children(self, environment: Mapping[str, str]) -> dict[str, str]:
        """The part of `environment` that a child may see; HOTKERNEL_PASS_ENV names more, even secrets."""
        named = set(filter(None, re.split(r"[,\s]+", self.environment.get("HOTKERNEL_PASS_ENV", ""))))
        return {name: value for name, value in environment.items() if name in named or _may_pass(name.upper())}

    def confine(self, tool: Tool, arguments: Mapping[str, Any]) -> None:
        """OutsideRoots when an argument says that files be written elsewhere; symlinks are followed first."""
        session = Session(root=self.roots[0], environment=self.environment)
        folder = arguments.get("cwd") or None
        for name in tool.listed.places:
            place = arguments.get(name)
            if not isinstance(place, str) or not place:
                continue
            path = session.path(place) if name == "cwd" else session.path(place, cwd=folder)
            if not any(path.is_relative_to(root) for root in self.roots):
                roots = ", ".join(map(str, self.roots))
                raise OutsideRoots(f"{name} lies outside the working folders: {path}",
                                   fix=f"give a folder below {roots}, or add its own to HOTKERNEL_ROOTS")


def _may_pass(name: str) -> bool:
    return (name in _NAMES or name.startswith(_BEGINNINGS)) and not _SECRET.search(name)
