"""Runs or compiles every attempt of one target where no card is, and prints a JSON line for each; judges no speed.

    python attempts.py interpret TARGET     each on small inputs, by the contract's own check: Triton by its interpreter, CUDA C
                                            by g++ and threads
    python attempts.py compile TARGET       each at its real shapes to code for sm_90: resources, as the assembler counts them
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cuda_on_cpu

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "rmsnorm": {"x": "8x512", "w": "512"}, "softmax": {"x": "256x512"}, "gemv": {"x": "32x1024", "v": "1024"},
    "layernorm": {"x": "8x512", "w": "512", "b": "512"}, "gelu": {"x": "16x600"}, "swiglu": {"gate": "16x600", "up": "16x600"},
    "residual_rmsnorm": {"x": "8x512", "residual": "8x512", "w": "512"},
    "rotary": {"q": "1x8x64x128", "k": "1x4x64x128", "cos": "64x64", "sin": "64x64"},
    "cross_entropy": {"x": "64x20000", "at": "64:int64<20000"}, "int4_gemv": {"v": "1024", "w": "32x1024"},
    "rmsnorm_backward": {"dy": "8x512", "x": "8x512", "w": "512"},
    "matmul_2048": {"a": "256x256", "b": "256x256"}, "matmul_8192": {"a": "256x256", "b": "256x256"},
    "attention": {"q": "1x2x256x64", "k": "1x2x256x64", "v": "1x2x256x64"}}
SEEDS = 3


def main() -> None:
    what, name = sys.argv[1:]
    if what == "interpret":
        os.environ["TRITON_INTERPRET"] = "1"
    for line in (interpreted if what == "interpret" else compiled)(name):
        print(json.dumps(line), flush=True)


def interpreted(name: str) -> Iterator[dict[str, Any]]:
    """Whether each attempt is right on small inputs, of every kind that the baseline is right on."""
    import torch

    from hotkernel_contract.line import check_once

    torch.cuda._compile_kernel = cuda_on_cpu.on_cpu
    round_to_nearest()
    target = small(name)
    drawn = [(kind, inputs) for kind, inputs in sets(target) if check_once(target, target.function, inputs)[0]]
    for path, function in attempts(name):
        answer: dict[str, Any] = {"attempt": path.stem, "ok": True, "why": "", "kinds": sorted({kind for kind, _ in drawn})}
        for kind, inputs in drawn:
            try:
                ok, why = check_once(target, function, inputs)
            except Exception as error:  # noqa: BLE001 - what an attempt raises is the answer
                ok, why = False, f"{type(error).__name__}: {error}"
            if not ok:
                answer.update(ok=False, why=f"{kind} inputs: {why}"[:600])
                break
        yield answer


def sets(target: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Inputs of one call each: of the timed kind, and of those that the rounds of correctness have."""
    import torch

    from hotkernel_contract.inputs import draw
    from hotkernel_contract.rounds import change, kinds_for

    for seed, kind in enumerate([""] * SEEDS + kinds_for(target)):
        generator = torch.Generator()
        generator.manual_seed(seed)
        raw = draw(target, generator, "cpu", tuple(n for n in target.raws if n not in target.fresh_raws))
        fresh = draw(target, generator, "cpu", target.fresh_raws, copies=1)
        if kind:
            change(target, fresh, kind, generator)
        yield kind or "timed", target.call_inputs({**raw, **{name: x[0] for name, x in fresh.items()}})


def small(name: str) -> Any:
    """The target with small inputs, on the CPU."""
    return dataclasses.replace(target_of(name), inputs=SMALL[name], device="cpu", baselines={})


def round_to_nearest() -> None:
    """Have the interpreter round to bf16 as the card does, and multiply it: of itself it cuts, and multiplies the bits."""
    import numpy
    from triton.language import bfloat16, float32
    from triton.runtime import interpreter

    cut, dot = interpreter._convert_float, interpreter.InterpreterBuilder.create_dot

    def convert(x: Any, of: Any, to: Any, mode: Any) -> Any:
        if (of, to) == (float32, bfloat16):
            bits = numpy.ascontiguousarray(x, dtype=numpy.float32).view(numpy.uint32)
            nearest = ((bits.astype(numpy.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)
            return numpy.where(numpy.isnan(x), numpy.uint16(0x7FC0), nearest)
        if (of, to) == (bfloat16, float32):
            return (numpy.ascontiguousarray(x).astype(numpy.uint32) << 16).view(numpy.float32)
        return cut(x, of, to, mode)

    def multiplied(self: Any, a: Any, b: Any, d: Any, *rest: Any) -> Any:
        a, b = (interpreter.TensorHandle(convert(x.data, bfloat16, float32, None), float32) if x.dtype.scalar == bfloat16 else x
                for x in (a, b))
        return dot(self, a, b, d, *rest)

    interpreter._convert_float, interpreter.InterpreterBuilder.create_dot = convert, multiplied


def target_of(name: str) -> Any:
    from hotkernel_contract.loading import load_file
    from hotkernel_contract.target import find_target

    return find_target(load_file(ROOT / "speedrun" / name / f"{name}_baseline.py"))


def attempts(name: str) -> Iterator[tuple[Path, Callable[..., Any]]]:
    from hotkernel_contract.loading import load_file

    for path in sorted((ROOT / "speedrun" / name / "attempts").glob("*.py")):
        module = load_file(path)
        yield path, getattr(module, f"{name}_candidate", None) or module.candidate


def compiled(name: str) -> Iterator[dict[str, Any]]:
    """What each attempt's kernels need on the card, compiled at the target's own shapes; nothing is launched."""
    import torch
    from triton.backends.compiler import GPUTarget
    from triton.runtime.driver import driver

    class NoCard:
        """What the compiler asks a driver for."""

        def get_current_target(self) -> GPUTarget:
            return GPUTarget("cuda", 90, 32)

        def get_current_device(self) -> int:
            return 0

        def get_current_stream(self, _device: int) -> int:
            return 0

    driver.set_active(NoCard())
    kernels: list[dict[str, Any]] = []
    look_at_launches(kernels)
    target = target_of(name)
    inputs = target.call_inputs({n: torch.empty(raw.shape, dtype=raw.dtype, device="meta") for n, raw in target.raws.items()})
    for path, function in attempts(name):
        if "_compile_kernel" in path.read_text("utf-8") and not cuda_on_cpu.can_compile():
            continue
        kernels.clear()
        answer: dict[str, Any] = {"attempt": path.stem, "ok": True, "why": ""}
        try:
            target.run(inputs, function)
        except Exception as error:  # noqa: BLE001 - what the compiler says is the answer
            answer.update(ok=False, why=f"{type(error).__name__}: {error}"[-600:])
        yield answer | {"kernels": list(kernels)}


def look_at_launches(kernels: list[dict[str, Any]]) -> None:
    """Have each launch compile its kernel and put what it needs into `kernels`, in place of running it."""
    import torch
    import triton
    from triton.runtime.jit import JITFunction

    run, bins = JITFunction.run, Path(triton.__file__).parent / "backends" / "nvidia" / "bin"

    def of_triton(self: Any, *args: Any, grid: Any, warmup: bool, **options: Any) -> None:
        made = run(self, *args, grid=grid, warmup=True, **options)
        kernels.append({"name": made.metadata.name, "shared": made.metadata.shared, "warps": made.metadata.num_warps}
                       | resources(made.asm["cubin"], bins))

    def of_cuda(source: str, name: str) -> Callable[..., None]:
        def launched(grid: tuple[int, ...], block: tuple[int, ...], args: list[Any]) -> None:
            made = resources(cuda_on_cpu.cubin(source), bins, name)
            kernels.append({"name": name, "shared": made["static"], "warps": block[0] // 32, **made})

        return launched

    JITFunction.run, torch.cuda._compile_kernel = of_triton, of_cuda


def resources(cubin: bytes, bins: Path, function: str = "") -> dict[str, Any]:
    """Registers, spilled bytes and shared memory of a compiled kernel: of its file's only one, or of the one of that name."""
    import re
    import subprocess
    import tempfile

    found: dict[str, Any] = {}
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        said, listing = (subprocess.run([*command, file.name], capture_output=True, text=True, timeout=60, check=False).stdout
                         for command in ((bins / "cuobjdump", "--dump-resource-usage"), (bins / "nvdisasm", "-c")))
    said = said.partition(f"Function {function}")[2]
    for word, label in (("REG", "registers"), ("STACK", "stack"), ("LOCAL", "local"), ("SHARED", "static")):
        number = re.search(rf"{word}:(\d+)", said)
        found[label] = int(number[1]) if number else None
    found["widest"] = "128" if re.search(r"LDG\.E[.\w]*\.128|LDGSTS[.\w]*\.128|UTMALDG", listing) else "narrower"
    found["tma"], found["wgmma"], found["copies"] = "UTMALDG" in listing, "HGMMA" in listing, "LDGSTS" in listing
    wait, read = (re.search(pattern, listing) for pattern in (r"\bACQBULK\b", r"\b(LDG|LDGSTS|UTMALDG|STG|RED|ATOM)\b"))
    found["waits"] = None if wait is None else read is None or wait.start() < read.start()
    return found


if __name__ == "__main__":
    main()
