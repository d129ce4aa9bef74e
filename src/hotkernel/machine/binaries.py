"""Runs cuobjdump, nvdisasm and ptxas on a file, tells what kind of file it is, and finds Triton's cached kernels."""

from __future__ import annotations

import contextlib
import enum
import json
import struct
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.machine import programs
from hotkernel.machine.process import OUTPUT_LIMIT_BYTES, Finished, Job

TIMEOUT_S = 180.0  # a library of a gigabyte takes cuobjdump about two minutes
TEXT_LIMIT_BYTES = 32_000_000
FUNCTIONS_PER_CALL = 40
PIP_LINE = "pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm, or hotkernel[sass] (they need no CUDA and no GPU)"
_EM_CUDA, _EM_AMDGPU = 190, 224


class FileKind(enum.StrEnum):
    """What a file is, by its first bytes."""

    CUBIN = "cubin"
    PTX = "ptx"
    FATBIN = "fatbin"
    HOST = "host"  # an executable, library, object or archive that may hold device code


@dataclass(frozen=True)
class CacheEntry:
    """One kernel of a Triton cache: the file that was asked for, and what the .json beside it says."""

    path: Path
    name: str
    modified_s: float
    metadata: Mapping[str, Any]


def identify(path: Path) -> FileKind:
    """What `path` is. Raises ToolError for what can hold no NVIDIA code, or is cut off."""
    with path.open("rb") as file:
        head = file.read(4096)
        size = path.stat().st_size
    if not head:
        raise ToolError(f"{path.name} is empty", fix="compile again; something stopped the compiler while it wrote")
    if head[:4] == b"\x7fELF":
        return _identify_elf(path, head, size)
    if head[:4] == struct.pack("<I", 0xBA55ED50):
        return FileKind.FATBIN
    if head[:2] == b"MZ" or head[:8] == b"!<arch>\n":
        return FileKind.HOST
    if b"\0" not in head:
        return FileKind.PTX
    raise ToolError(f"{path.name} is none of .cubin, .ptx, .fatbin, .so, .exe, .o, .a",
                    fix="give a file that a CUDA compiler wrote", detail=f"its first bytes: {head[:8].hex(' ')}")


def read_text(path: Path) -> str:
    """A text file, to 32 MB, whatever its bytes are."""
    with path.open("rb") as file:
        return file.read(TEXT_LIMIT_BYTES).decode("utf-8", "replace")


@dataclass(frozen=True)
class Toolbox:
    """The disassemblers of this machine, run by one job."""

    job: Job
    environment: Mapping[str, str]
    nvdisasm: Path
    cuobjdump: Path | None

    @classmethod
    def find(cls, job: Job, environment: Mapping[str, str], *, need_cuobjdump: bool) -> Toolbox:
        """The newest of each. Raises ToolError with what to install; only a cubin can be read without cuobjdump."""
        try:
            nvdisasm = programs.find("nvdisasm", environment)  # cuobjdump -sass runs it, too
        except ToolError:
            raise ToolError("SASS needs nvdisasm and cuobjdump, and they are not on this machine",
                            fix=f"{PIP_LINE}; or name their folder in HOTKERNEL_TOOL_DIRS; "
                            "level=ptx on a .ptx file works without them") from None
        try:
            cuobjdump = programs.find("cuobjdump", environment)
        except ToolError:
            if need_cuobjdump:
                raise ToolError("this file needs cuobjdump, which is not on this machine", fix=PIP_LINE) from None
            cuobjdump = None
        return cls(job, environment, nvdisasm, cuobjdump)

    @property
    def made_by(self) -> str:
        """The program that reads the code, with its version."""
        return named(self.nvdisasm)

    def nvdisasm_listing(self, path: Path) -> str:
        """All kernels of a cubin, with source lines where it has them."""
        return self._said([self.nvdisasm, "-gi", "-c", path], path)

    def cuobjdump_listing(self, path: Path, functions: Sequence[str] = ()) -> str:
        """The kernels of any file, or those named, in each architecture that it holds."""
        only = ["-fun", ",".join(functions[:FUNCTIONS_PER_CALL])] if functions else []
        return self._said([self._cuobjdump(), "-sass", *only, path], path)

    def resource_usage(self, path: Path) -> str:
        """What each kernel needs, as cuobjdump prints it; empty where it cannot say."""
        if self.cuobjdump is None:
            return ""
        finished = self._run([self.cuobjdump, "--dump-resource-usage", path])
        return finished.stdout if finished.ok else ""

    def ptx(self, path: Path) -> str:
        """The PTX that a file holds; empty where there is none."""
        finished = self._run([self._cuobjdump(), "-ptx", path])
        return finished.stdout if finished.ok else ""

    def extracted_listing(self, path: Path, architectures: Sequence[str]) -> str:
        """The kernels of a host file by way of its extracted cubins, which gives source lines.

        Empty where the cubins are too many; a name that is there twice hides one of the two, so not all kernels need
        be in it.
        """
        listed = self._run([self._cuobjdump(), "-lelf", path]).stdout
        names = dict.fromkeys(line.split(":", 1)[1].strip() for line in listed.splitlines() if line.startswith("ELF"))
        wanted = [name for name in names if any(f".{arch}." in name for arch in architectures)]
        if not wanted or len(wanted) > 8:
            return ""
        with tempfile.TemporaryDirectory(prefix="hotkernel-") as folder:
            for name in wanted:
                self._run([self._cuobjdump(), "-xelf", name, path], cwd=Path(folder))
            cubins = sorted(Path(folder).glob("*.cubin"))
            return "\n".join(self._run([self.nvdisasm, "-gi", "-c", cubin]).stdout for cubin in cubins)

    def _cuobjdump(self) -> Path:
        if self.cuobjdump is None:
            raise ToolError("this needs cuobjdump, which is not on this machine", fix=PIP_LINE)
        return self.cuobjdump

    def _run(self, argv: Sequence[str | Path], cwd: Path | None = None) -> Finished:
        environment = {**self.environment, "NVDISASM_PATH": str(self.nvdisasm.parent)}
        return self.job.run(argv, timeout_s=TIMEOUT_S, cwd=cwd, env=environment)

    def _said(self, argv: Sequence[str | Path], path: Path) -> str:
        finished = self._run(argv)
        if len(finished.stdout) >= OUTPUT_LIMIT_BYTES:
            raise ToolError(f"the listing of {path.name} is larger than {OUTPUT_LIMIT_BYTES // 10**6} MB",
                            fix="name one kernel with `kernel`")
        if not finished.ok or "fatal" in finished.stderr:
            raise _refusal(finished, path, self.nvdisasm)
        return finished.stdout


def assemble(job: Job, environment: Mapping[str, str], path: Path, arch: str, cubin: Path) -> tuple[str, str]:
    """Make `cubin` from a PTX file with the machine's own ptxas: what it said of registers and spills, and its name.

    Raises ToolError when there is no ptxas or it refuses.
    """
    ptxas = programs.find("ptxas", environment)
    finished = job.run([ptxas, "-v", "-arch", arch, path, "-o", cubin], timeout_s=TIMEOUT_S, env=environment)
    if not finished.ok:
        raise ToolError(f"{named(ptxas)} does not assemble {path.name}",
                        fix="use a ptxas at least as new as the compiler that wrote the PTX, and that still knows its "
                        "architecture", detail=finished.tail(600))
    return finished.stderr + finished.stdout, named(ptxas)


def named(program: Path) -> str:
    """A program with its version."""
    version = programs.version(program)
    return program.stem + (" " + ".".join(map(str, version)) if version else "")


def cache_root(environment: Mapping[str, str]) -> Path:
    """Where Triton keeps what it compiled."""
    named_root = environment.get("TRITON_CACHE_DIR", "").strip()
    home = environment.get("TRITON_HOME", "").strip() or environment.get("HOME") or str(Path.home())
    return Path(named_root).expanduser() if named_root else Path(home) / ".triton" / "cache"


def cache_entry(path: Path) -> CacheEntry:
    """One file as an entry; its metadata is empty where no .json lies beside it."""
    return CacheEntry(path, path.stem, path.stat().st_mtime, _metadata(path.with_suffix(".json")))


def cache_entries(root: Path, kernel: str, suffix: str) -> list[CacheEntry]:
    """The cached files with `suffix` whose kernel's name contains `kernel`, newest first, less what cannot be read.

    The folders are searched, never a group file's own list of paths: those are absolute and break when a cache moves.
    """
    found = [entry for entry in _entries(root, suffix) if kernel in entry.name]
    return sorted(found, key=lambda entry: (-entry.modified_s, str(entry.path)))


def _entries(root: Path, suffix: str) -> Iterator[CacheEntry]:
    for path in sorted(root.glob(f"*/*{suffix}")):
        try:
            if path.is_file():
                yield cache_entry(path)
        except OSError:  # a cache is cleared, or a path is too long, while it is read
            continue


def _metadata(path: Path) -> Mapping[str, Any]:
    with contextlib.suppress(OSError, ValueError), path.open(encoding="utf-8") as file:
        read = json.load(file)
        return read if isinstance(read, dict) else {}
    return {}


def _identify_elf(path: Path, head: bytes, size: int) -> FileKind:
    if len(head) < 64 or head[4] != 2 or head[5] != 1:
        raise ToolError(f"{path.name} is cut off, or an ELF file of another kind", fix="give a whole 64-bit file")
    machine = struct.unpack_from("<H", head, 18)[0]
    if machine == _EM_AMDGPU:
        raise ToolError(f"{path.name} is code for an AMD GPU", fix="use ROCm's llvm-objdump; this reads NVIDIA's code")
    sections_at = struct.unpack_from("<Q", head, 40)[0]
    entry_bytes, entries = struct.unpack_from("<HH", head, 58)
    if sections_at + entry_bytes * entries > size:
        raise ToolError(f"{path.name} is cut off: it has {size:,} bytes and names sections up to byte "
                        f"{sections_at + entry_bytes * entries:,}", fix="compile or copy it again")
    return FileKind.CUBIN if machine == _EM_CUDA else FileKind.HOST


def _refusal(finished: Finished, path: Path, nvdisasm: Path) -> ToolError:
    said = finished.tail(1000)
    if "does not contain device code" in said:
        return ToolError(f"{path.name} holds no CUDA device code",
                         fix="give the file that the kernels were linked into; a host-only object has none")
    if "deprecated" in said or "is not defined for option" in said or "removed" in said:
        return ToolError(f"{named(nvdisasm)} no longer knows the architecture of {path.name}",
                         fix="install disassemblers of an older CUDA (12.9 still knows sm_50 to sm_72) and remove the "
                         "newer ones from where they are looked for", detail=said)
    return ToolError(f"{named(Path(finished.argv[0]))} cannot read {path.name}",
                     fix=f"a file newer than the disassembler needs a newer one: {PIP_LINE}", detail=said)
