"""Runs the speedrun's CUDA C where no card is, and compiles it for one: both stand in for torch.cuda._compile_kernel."""

from __future__ import annotations

import ctypes
import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

SHIM = Path(__file__).with_name("cuda_on_cpu.h")
DEVICE = re.compile(r"^__device__[^;{]*\{", re.MULTILINE)
SIGNATURE = r"{name}\(([^)]*)\)\s*\{{"


def on_cpu(source: str, name: str) -> Callable[..., None]:
    """The kernel as a function of grid, block and arguments, by g++ and threads; functions that are assembly are the shim's."""
    parameters = re.search(SIGNATURE.format(name=name), source)
    assert parameters, f"no {name}"
    types = [parameter.strip().rpartition(" ")[0] for parameter in parameters[1].split(",")]
    given = ", ".join(f"*({kind}*)arguments[{at}]" for at, kind in enumerate(types))
    text = (f'#include "{SHIM}"\n{without_assembly(source)}\nextern "C" void run(unsigned* grid, unsigned* block, '
            f"void** arguments) {{\n    launch([=] {{ {name}({given}); }}, grid, block);\n}}\n")
    folder = Path(tempfile.mkdtemp(prefix="cuda-on-cpu-"))
    (folder / "kernel.cpp").write_text(text, encoding="utf-8")
    subprocess.run(["g++", "-std=c++20", "-O1", "-pthread", "-shared", "-fPIC", "-Wno-unknown-pragmas", "-Wno-attributes",
                    "kernel.cpp", "-o", "kernel.so"], cwd=folder, check=True, timeout=120)
    run = ctypes.CDLL(str(folder / "kernel.so")).run

    def called(grid: tuple[int, ...], block: tuple[int, ...], args: list[Any]) -> None:
        held = [ctypes.c_void_p(each.data_ptr()) if hasattr(each, "data_ptr") else ctypes.c_int(each) for each in args]
        pointers = (ctypes.c_void_p * len(held))(*[ctypes.addressof(each) for each in held])
        run((ctypes.c_uint * 3)(*grid), (ctypes.c_uint * 3)(*block), pointers)

    return called


def without_assembly(source: str) -> str:
    """The source less the device functions with `asm` in them."""
    kept, at = [], 0
    for found in DEVICE.finditer(source):
        end = end_of(source, found.end())
        if found.start() >= at and "asm(" in source[found.start():end].replace("asm volatile(", "asm("):
            kept.append(source[at:found.start()])
            at = end
    return "".join(kept) + source[at:]


def end_of(source: str, at: int) -> int:
    """Behind the brace that closes the one before `at`; those in texts do not count."""
    depth, is_text = 1, False
    while depth:
        is_text ^= source[at] == '"'
        if not is_text:
            depth += {"{": 1, "}": -1}.get(source[at], 0)
        at += 1
    return at


def can_compile() -> bool:
    return library() is not None


def library() -> Path | None:
    """NVRTC of the wheel nvidia-cuda-nvrtc, where that is installed; it needs no card."""
    try:
        spec = importlib.util.find_spec("nvidia.cu13") or importlib.util.find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        return None
    places = spec.submodule_search_locations if spec else None
    return next((file for place in places or () for file in sorted(Path(place).rglob("libnvrtc.so.*"))), None)


def cubin(source: str) -> bytes:
    """For compute capability 9.0. Raises RuntimeError with what the compiler says."""
    file = library()
    assert file
    ctypes.CDLL(str(next(file.parent.glob("libnvrtc-builtins.so.*"))), ctypes.RTLD_GLOBAL)  # looked for by name alone
    nvrtc, program, size = ctypes.CDLL(str(file)), ctypes.c_void_p(), ctypes.c_size_t()
    nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"kernel.cu", 0, None, None)
    failed = nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90"))
    what = "ProgramLog" if failed else "CUBIN"
    getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    getattr(nvrtc, f"nvrtcGet{what}")(program, text)
    if failed:
        raise RuntimeError(text.value.decode())
    return text.raw
