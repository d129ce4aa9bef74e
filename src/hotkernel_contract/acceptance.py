"""Tries a target in the user's Python before its files are left behind: loads it, calls it, holds it against itself.

`python acceptance.py BASELINE ANSWER`: writes one JSON object to the file ANSWER, `refused` in it when the target cannot judge.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional

DRAWS, DRAWS_S = 32, 4.0  # a baseline that fails one input in a hundred would fail a later verify
MEMORY_FACTOR = 4  # inputs, their wide copies, the answer and the output, at the least
SPARE = 4.0  # between the baseline's own largest error and the tolerance that is proposed for it
PROPOSED_SHARE = 0.25  # of a usual row's RMS; a larger error is no rounding, and no tolerance is the answer to it
OWN_CHECK = "fails its own check"


def main(arguments: List[str]) -> None:
    """Try the baseline file, write the answer."""
    baseline, answer = arguments
    from hotkernel_contract.target import TargetError
    from hotkernel_contract.worker import describe

    try:
        said = try_target(Path(baseline))
    except TargetError as error:
        said = {"refused": str(error)}
    except BaseException as error:  # noqa: BLE001 - an import of user code raises anything, SystemExit too
        traceback.print_exc()
        said = {"refused": "the target cannot be loaded: %s" % describe(error)}
    with open(answer, "w", encoding="utf-8") as file:
        json.dump(said, file)
    sys.stdout.flush()
    os._exit(0)  # threads that the user's module started must not keep this process


def try_target(baseline: Path) -> Dict[str, Any]:
    """What the target is; raises TargetError when it cannot judge."""
    import torch

    from hotkernel_contract.compare import Tolerance
    from hotkernel_contract.oracle import _hashes_of
    from hotkernel_contract.selftest import refuse_weak
    from hotkernel_contract.target import TargetError, find_target, load_file, wide_for

    before = set(sys.modules)
    with called("loading the target"):
        module = load_file(baseline)
    target = find_target(module)
    device = target.pick_device()
    if device == "cuda" and not torch.cuda.is_available():
        raise TargetError("the target is for CUDA and torch sees no card here")
    refuse_too_large(target, device)
    refuse_other_arity(target)
    inputs = draw_inputs(target, device)
    output = call_once(target, inputs)
    tolerance = Tolerance.of(target, output.dtype)
    own = "the function, called in %s as its own reference (`reference` names another)," % _word(wide_for(output.dtype))
    with called("the reference" if target.reference else own):
        target.expected(list(inputs.values()), wide_for(output.dtype))
    with called("the check"):
        try:
            refuse_weak(target, device, tolerance)
        except TargetError as error:
            if OWN_CHECK in str(error):
                refuse_unsteady(target, device, tolerance)  # says the same, and what tolerance would do
            raise
        refuse_unsteady(target, device, tolerance)
    return {
        "device": device, "rotate": list(target.rotate), "loaded": _hashes_of(set(sys.modules) - before),
        "inputs": {name: "%s:%s" % ("x".join(map(str, x.shape)), _word(x.dtype)) for name, x in inputs.items()},
        "output": "%s:%s" % ("x".join(map(str, output.shape)), _word(output.dtype)), "torch": torch.__version__,
    }


@contextlib.contextmanager
def called(what: str) -> Iterator[None]:
    """Turn what user code raises into a TargetError that says whose it was."""
    from hotkernel_contract.target import TargetError
    from hotkernel_contract.worker import describe

    try:
        yield
    except TargetError:
        raise
    except BaseException as error:  # noqa: BLE001 - user code raises anything
        traceback.print_exc()
        raise TargetError("%s failed: %s" % (what, describe(error))) from None


def refuse_too_large(target: Any, device: str) -> None:
    """Raise TargetError before a shape that no memory holds takes the machine down."""
    import torch

    from hotkernel_contract.target import TargetError

    need = MEMORY_FACTOR * sum(raw.bytes for raw in target.raws.values())
    free = torch.cuda.mem_get_info()[0] if device == "cuda" else free_host_bytes()
    if free is not None and need > free:
        raise TargetError("these shapes need %.3g GB, with the reference and the check, and %.3g GB are free: use smaller ones"
                          % (need / 1e9, free / 1e9))


def free_host_bytes() -> Optional[int]:
    """Memory that can be had without swapping, or None where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="utf-8") as file:
            lines = dict(line.split(":", 1) for line in file)
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def refuse_other_arity(target: Any) -> None:
    """Raise TargetError when function, reference or derive cannot take what they would be called with."""
    from hotkernel_contract.target import TargetError

    calls = [("the function", target.function, target.arguments), ("the reference", target.reference, target.arguments),
             ("derive", target.derive, ("the dict of raw tensors",))]
    for what, function, arguments in calls:
        try:
            signature = inspect.signature(function) if function else None
        except (TypeError, ValueError):  # built-ins do not say; the call will
            continue
        if signature is None:
            continue
        try:
            signature.bind(*arguments)
        except TypeError as error:
            raise TargetError("%s takes %s and would be called with %s: %s"
                              % (what, signature, ", ".join(arguments), error)) from None


def draw_inputs(target: Any, device: str) -> Dict[str, Any]:
    """Inputs of one call; raises TargetError when derive fails or does not deliver tensors."""
    import torch

    from hotkernel_contract.inputs import draw
    from hotkernel_contract.target import TargetError

    generator = torch.Generator(device=device)
    generator.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
    with torch.no_grad(), called("derive" if target.derive else "drawing the inputs"):
        inputs: Dict[str, Any] = target.call_inputs(draw(target, generator, device, tuple(target.raws)))
    for name, x in inputs.items():
        if not isinstance(x, torch.Tensor):
            raise TargetError("derive returns %s for %s, not a tensor" % (type(x).__name__, name))
    return inputs


def call_once(target: Any, inputs: Dict[str, Any]) -> Any:
    """The function's output; raises TargetError for what no verify could take: no tensor, an input's memory, a changed input."""
    import torch

    from hotkernel_contract.target import TargetError

    shown = ", ".join("%s %s" % (name, list(x.shape)) for name, x in inputs.items())
    kept = {name: x.clone() for name, x in inputs.items()}
    with torch.no_grad(), called("the function, called with %s," % shown):
        output = target.function(*inputs.values())
    if not isinstance(output, torch.Tensor):
        raise TargetError("the function returns %s, not a tensor" % type(output).__name__)
    for name, x in inputs.items():
        if output.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            raise TargetError("the function returns memory of its input %s; it must return a tensor of its own" % name)
        if not torch.equal(x.reshape(-1).view(torch.uint8), kept[name].reshape(-1).view(torch.uint8)):
            raise TargetError("the function changes its input %s in place: wrap it in a function that copies first" % name)
    return output


def refuse_unsteady(target: Any, device: str, tolerance: Any) -> None:
    """Raise TargetError when the baseline fails its own check on some of many drawings, with the tolerance that it needs."""
    import torch

    from hotkernel_contract.compare import Expected, Tally, error_fault, statistics
    from hotkernel_contract.target import TargetError, wide_for

    tally, excess, usual, began = Tally(), 0.0, 0.0, time.monotonic()
    while tally.outputs < DRAWS and (time.monotonic() - began < DRAWS_S or not tally.outputs):
        inputs = list(draw_inputs(target, device).values())
        with torch.no_grad():
            output = target.function(*[x.clone() for x in inputs])
            expected = Expected.of(target.expected(inputs, wide_for(output.dtype)), output.dtype)
            wrong = tally.add([statistics(output.contiguous(), expected, tolerance).tolist()])
            if wrong and output.dtype.is_floating_point:
                error = (output.reshape(expected.value.shape).double() - expected.value.double()).abs()
                usual = expected.row_rms.median().item()
                excess = max(excess, (error - tolerance.rtol * expected.value.double().abs()).max().item())
    fault = error_fault(tally, tally, tolerance)
    if fault:
        proposal = "atol=%.0e" % (SPARE * excess) if 0 < SPARE * excess < PROPOSED_SHARE * usual else "other tolerances"
        raise TargetError("the baseline " + OWN_CHECK + ": %s; give %s, a better reference, or mixture='normal' if extreme "
                          "inputs are not legal for it" % (fault[1], proposal))


def _word(dtype: Any) -> str:
    short = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
    name = str(dtype).replace("torch.", "")
    return short.get(name, name)


if __name__ == "__main__":
    import boot  # this file's folder is on sys.path, as for any script

    boot.bind_package()
    main(sys.argv[1:])
