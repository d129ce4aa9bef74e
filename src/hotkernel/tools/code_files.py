"""Reads a file's kernels with whatever this machine has for it: the file of a target, its SASS or its PTX."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hotkernel.errors import ToolError
from hotkernel.machine import binaries
from hotkernel.machine.binaries import CacheEntry, FileKind, Toolbox
from hotkernel.profilers import ptx, sass
from hotkernel.profilers.instructions import Function, ResourceUsage, plain
from hotkernel.session import Session

LARGE_CUBIN_BYTES = 4_000_000  # its whole listing would be more than 50 MB


@dataclass(frozen=True)
class Code:
    """A file as read: its kernels, the listing, and what is to be said about the reading."""

    functions: tuple[Function, ...]
    usage: tuple[ResourceUsage, ...]
    lines: list[str]
    made_by: str
    is_sass: bool = True
    warnings: tuple[str, ...] = ()


def cached(session: Session, kernel: str, suffix: str) -> list[CacheEntry]:
    """The cache's entries that fit, newest first, at least one."""
    root = binaries.cache_root(session.environment)
    if not root.is_dir():
        raise ToolError(f"there is no Triton cache at {root}",
                        fix="run the kernel once, or set TRITON_CACHE_DIR to where Triton keeps what it compiled "
                        "(torch.compile: /tmp/torchinductor_<user>/triton/<n>)")
    entries = binaries.cache_entries(root, kernel, suffix)
    if entries:
        return entries
    names = sorted({plain(entry.name) for entry in binaries.cache_entries(root, "", suffix)})
    if names:
        raise ToolError(f"no cached kernel's name contains {kernel!r}", fix=f"one of: {listed(names)}")
    hint = "it holds code for AMD GPUs (.hsaco)" if any(root.glob("*/*.hsaco")) else "run the kernel once on a GPU"
    raise ToolError(f"no {suffix} under {root}", fix=hint)


def _chosen(functions: Sequence[Function], kernel: str, path: Path) -> tuple[Function, ...]:
    """The functions whose name contains `kernel`; ToolError that lists the names where there is none."""
    chosen = tuple(each for each in functions if _is_meant(each.name, kernel))
    if kernel and not chosen:
        raise _no_such_kernel(kernel, path, [each.name for each in functions])
    return chosen


def _is_meant(name: str, kernel: str) -> bool:
    """Whether `kernel` names it: as part of its symbol or, written as in C++ (`a::f<3>(int)`), by its identifier."""
    if kernel in name:
        return True
    identifier = re.split(r"[<(]", kernel)[0].split("::")[-1].split()[-1:] or [""]
    return bool(identifier[0]) and identifier[0] != kernel and identifier[0] in name


def _no_such_kernel(kernel: str, path: Path, names: Iterable[str]) -> ToolError:
    return ToolError(f"no kernel in {path.name} has a name that contains {kernel!r}",
                     fix=f"one of: {listed(sorted({plain(name) for name in names}))}")


def listed(names: Sequence[str]) -> str:
    return ", ".join(names[:20]) + (f" and {len(names) - 20} more" if len(names) > 20 else "")


def sass_of(session: Session, path: Path, kernel: str) -> Code:
    kind = binaries.identify(path)
    if kind is FileKind.PTX:
        return _sass_of_ptx(session, path, kernel)
    toolbox = Toolbox.find(session.job, session.environment, need_cuobjdump=kind is not FileKind.CUBIN)
    usage = sass.parse_resource_usage(toolbox.resource_usage(path))
    warnings: tuple[str, ...] = ()
    if toolbox.cuobjdump is None:
        warnings = (f"registers, stack and shared memory need cuobjdump: {binaries.PIP_LINE}",)
    is_large = path.stat().st_size > LARGE_CUBIN_BYTES and bool(kernel) and bool(usage)
    if kind is FileKind.CUBIN and not is_large:
        functions = _chosen(sass.parse(toolbox.nvdisasm_listing(path)), kernel, path)
    else:
        functions, more = _functions_of_host(toolbox, path, usage, kernel)
        warnings += more
    if not functions:
        raise ToolError(f"{path.name} holds no kernel", fix="give the file that the kernels were linked into")
    return Code(functions, usage, sass.render(functions), toolbox.made_by, warnings=warnings)


def _functions_of_host(toolbox: Toolbox, path: Path, usage: Sequence[ResourceUsage],
                       kernel: str) -> tuple[tuple[Function, ...], tuple[str, ...]]:
    """The kernels of a file that holds code for several architectures or of several compilations."""
    wanted = [each for each in usage if _is_meant(each.function, kernel)]
    if usage and not wanted:
        raise _no_such_kernel(kernel, path, [each.function for each in usage])
    names = list(dict.fromkeys(each.function for each in wanted))
    functions = sass.parse(toolbox.cuobjdump_listing(path, names))
    if not functions and toolbox.ptx(path).strip():
        raise ToolError(f"{path.name} holds PTX and no machine code",
                        fix="use level=ptx, or compile it for an architecture (nvcc -arch=sm_90, "
                        "TORCH_CUDA_ARCH_LIST=9.0)")
    left_out = len(names) - binaries.FUNCTIONS_PER_CALL
    told = f"{len(names)} kernels: the last {left_out} are not read; name one with `kernel`"
    warnings = (told,) if left_out > 0 else ()
    architectures = sorted({each.arch for each in functions if each.arch})
    with_lines = {(each.name, each.arch, len(each.instructions)): each
                  for each in sass.parse(toolbox.extracted_listing(path, architectures))}
    return tuple(with_lines.get((each.name, each.arch, len(each.instructions)), each) for each in functions), warnings


def _sass_of_ptx(session: Session, path: Path, kernel: str) -> Code:
    """A .ptx file's SASS: of the cubin beside it, else assembled here, else its PTX with a warning."""
    text = _ptx_text(path)
    beside = path.with_suffix(".cubin")
    if beside.is_file():
        code = sass_of(session, beside, kernel)
        return replace(code, warnings=(*code.warnings, f"this is {beside.name}, which lies beside the PTX"))
    arch = next((each.arch for each in ptx.parse(text) if each.arch), None)
    try:
        with tempfile.TemporaryDirectory(prefix="hotkernel-") as folder:
            cubin = Path(folder) / f"{path.stem}.cubin"
            log, assembler = binaries.assemble(session.job, session.environment, path, arch or "sm_90", cubin)
            code = sass_of(session, cubin, kernel)
        told = f"assembled here by {assembler} for {arch}; the driver or Triton may assemble it otherwise"
        return replace(code, usage=_with_spills(code.usage, ptx.parse_ptxas(log)), warnings=(*code.warnings, told))
    except ToolError as error:
        code = ptx_of(session, path, kernel)
        return replace(code, warnings=(*code.warnings, f"this is the PTX, not SASS: {error.message}; {error.fix}"))


def _with_spills(usage: Sequence[ResourceUsage], said: Sequence[ResourceUsage]) -> tuple[ResourceUsage, ...]:
    """`usage` with what the assembler said of spills; what it says of all else where `usage` is empty."""
    of_name = {each.function: each for each in said}
    return tuple(replace(each, spill_store_bytes=of_name[each.function].spill_store_bytes,
                         spill_load_bytes=of_name[each.function].spill_load_bytes)
                 if each.function in of_name else each for each in usage) or tuple(said)


def ptx_of(session: Session, path: Path, kernel: str) -> Code:
    kind = binaries.identify(path)
    made_by = "the file itself"
    warnings: tuple[str, ...] = ()
    if kind is FileKind.PTX:
        text = _ptx_text(path)
    elif path.with_suffix(".ptx").is_file():
        text = _ptx_text(path.with_suffix(".ptx"))
        warnings = (f"this is {path.stem}.ptx, which lies beside {path.name}",)
    else:
        toolbox = Toolbox.find(session.job, session.environment, need_cuobjdump=True)
        text, made_by = toolbox.ptx(path), binaries.named(toolbox.cuobjdump) if toolbox.cuobjdump else ""
        if not ptx.is_ptx(text):
            raise ToolError(f"{path.name} holds no PTX",
                            fix="use level=sass; a Triton cache keeps the .ptx beside the .cubin")
    functions = _chosen(ptx.parse(text), kernel, path)
    lines = ptx.render(text, {each.name for each in functions} if kernel else ())
    return Code(functions, (), lines, made_by, is_sass=False, warnings=warnings)


def _ptx_text(path: Path) -> str:
    text = binaries.read_text(path)
    if not ptx.is_ptx(text):
        raise ToolError(f"{path.name} is text, but not PTX",
                        fix="give a .ptx, .cubin or library; PTX has .version and .target")
    return text
