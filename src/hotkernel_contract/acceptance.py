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
import warnings
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
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch without numpy; it would look like a cause
    from hotkernel_contract.side_source import describe
    from hotkernel_contract.target import TargetError

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
    """What the target is; raises TargetError when it cannot judge. Every case is tried, every baseline called."""
    import torch

    from hotkernel_contract.loaded_target import hashes_of, hashes_of_files
    from hotkernel_contract.loading import load_file
    from hotkernel_contract.target import TargetError, find_target

    before = set(sys.modules)
    with called("loading the target"):
        module = load_file(baseline)
    whole = find_target(module)
    device = whole.pick_device()
    if device == "cuda" and not torch.cuda.is_available():
        raise TargetError("the target is for CUDA and torch sees no card here")
    tried: List[Dict[str, Any]] = []
    for case in whole.cases or [""]:
        try:
            tried.append(try_case(whole.of_case(case) if case else whole, device))
        except TargetError as error:
            raise TargetError("case %s: %s" % (case, error) if case else str(error)) from None
    tried[0]["call"]["module"] = whole.module_kind
    return {
        **tried[0], "device": device, "loaded": {**hashes_of(set(sys.modules) - before), **hashes_of_files(whole)},
        "cases": list(whole.cases), "baselines": list(whole.baselines), "torch": torch.__version__,
    }


def try_case(target: Any, device: str) -> Dict[str, Any]:
    """What a target takes and gives, in one of its cases."""
    from hotkernel_contract.selftest import refuse_weak, rounds_for
    from hotkernel_contract.target import TargetError, wide_for

    refuse_too_large(target, device)
    refuse_other_arity(target)
    target.settle(device)
    seen = call_once(target, device)
    for name in target.baselines:
        other = call_once(target.with_function(name), device, "the baseline %r" % name)
        if [k.as_wanted for k in other.kinds] != [k.as_wanted for k in seen.kinds]:
            raise TargetError("the baseline %r returns another kind of output than the function" % name)
    own = "the function, called in %s as its own reference (`reference` names another)," % _word(wide_for(*seen.dtypes))
    with called("the reference" if target.reference else own):
        target.expected(seen.inputs, wide_for(*seen.dtypes))
    limited: Dict[str, str] = {}
    for name in ["", *target.baselines]:
        with called("the check"):
            tried = target.with_function(name)
            try:
                tolerances = refuse_weak(tried, device, seen)
            except TargetError as error:
                if OWN_CHECK in str(error):
                    refuse_unsteady(tried, device, seen, seen.tolerances(tried))  # says the same, and what tolerance would do
                raise
            refuse_unsteady(tried, device, seen, tolerances)
            limited = limited or rounds_for(tried, device, seen, tolerances)[1]
    return {
        "call": {"positional": list(target.call.positional), "keywords": list(target.call.keywords),
                 "constants": list(target.call.constants), "module": target.module_kind},
        "rotate": list(target.rotate), "limited_rounds": limited, "writes": list(target.writes),
        "inputs": {name: "%s:%s" % ("x".join(map(str, x.shape)), _word(x.dtype)) for name, x in seen.inputs.items()},
        "output": ", ".join("%s%s:%s" % (name + " " if len(seen.outputs) > 1 else "", "x".join(map(str, y.shape)), _word(y.dtype))
                            for name, y in seen.outputs.items()),
    }


@contextlib.contextmanager
def called(what: str) -> Iterator[None]:
    """Turn what user code raises into a TargetError that says whose it was."""
    from hotkernel_contract.side_source import describe
    from hotkernel_contract.target import TargetError

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

    weights = ["weights"] if target.has_weights else []
    named = {name: name for name in target.call.keywords}
    given = (target.call.positional, {**named, **target.call.constants})
    others = [("the baseline %r" % name, function, given) for name, function in target.baselines.items()]
    calls = [("the function", target.function, given), *others,
             ("the reference", target.reference, ((*given[0], *weights), given[1])),
             ("derive", target.derive, (("the dict of raw tensors",), {}))]
    for what, function, (places, words) in calls:
        try:
            signature = inspect.signature(function) if function else None
        except (TypeError, ValueError):  # built-ins do not say; the call will
            continue
        if signature is None:
            continue
        try:
            signature.bind(*places, **words)
        except TypeError as error:
            shown = ", ".join([*places, *("%s=%r" % (n, v) if n not in named else n for n, v in words.items())])
            raise TargetError("%s takes %s and would be called with %s: %s" % (what, signature, shown, error)) from None


def call_once(target: Any, device: str, what: str = "the function") -> Any:
    """What a call takes and gives; raises TargetError for what no verify could take: no tensor, an input's memory, a changed
    input that was not declared."""
    import torch

    from hotkernel_contract.inputs import draw, like
    from hotkernel_contract.outputs import observe
    from hotkernel_contract.selftest import new_generator
    from hotkernel_contract.target import TargetError

    with torch.no_grad(), called("derive" if target.derive else "drawing the inputs"):
        inputs = target.call_inputs(draw(target, new_generator(device), device, tuple(target.raws)))
        for name, x in inputs.items():
            if not isinstance(x, torch.Tensor):
                raise TargetError("derive returns %s for %s, not a tensor" % (type(x).__name__, name))
    shown = ", ".join("%s %s" % (name, list(x.shape)) for name, x in inputs.items())
    with torch.no_grad(), called("%s, called with %s," % (what, shown)):
        target.run({name: like(x) for name, x in inputs.items()})
        return observe(target, device)


def refuse_unsteady(target: Any, device: str, seen: Any, tolerances: Any) -> None:
    """Raise TargetError when the baseline fails its own check on some of many drawings, with the tolerance that it needs."""
    import torch

    from hotkernel_contract.compare import Expected, Tally, error_fault, statistics
    from hotkernel_contract.inputs import draw, like
    from hotkernel_contract.selftest import new_generator
    from hotkernel_contract.target import TargetError, wide_for

    tallies = [Tally() for _ in tolerances]
    needs, began = [Need() for _ in tolerances], time.monotonic()
    while tallies[0].outputs < DRAWS and (time.monotonic() - began < DRAWS_S or not tallies[0].outputs):
        with torch.no_grad():
            inputs = target.call_inputs(draw(target, new_generator(device), device, tuple(target.raws)))
            outputs = target.run({name: like(x) for name, x in inputs.items()})
            answers = target.expected(inputs, wide_for(*seen.dtypes))
            for name, tally, need, tolerance in zip(outputs, tallies, needs, tolerances):
                expected = Expected.of(answers[name], outputs[name].dtype)
                if tally.add([statistics(outputs[name].contiguous(), expected, tolerance).tolist()]):
                    need.learn(outputs[name], expected, tolerance)
    for name, tally, need, tolerance in zip(seen.outputs, tallies, needs, tolerances):
        fault = error_fault(tally, tally, tolerance)
        if fault:
            where = " of %s" % name if len(tallies) > 1 else ""
            raise TargetError("the baseline " + OWN_CHECK + where + ": %s; give %s, a better reference, or mixture='normal' if "
                              "extreme inputs are not legal for it" % (fault[1], need.proposal()))


class Need:
    """The absolute tolerance that would have let an output pass."""

    excess = usual = 0.0

    def learn(self, output: Any, expected: Any, tolerance: Any) -> None:
        if output.dtype.is_floating_point:
            error = (output.reshape(expected.value.shape).double() - expected.value.double()).abs()
            self.usual = expected.row_rms.median().item()
            self.excess = max(self.excess, (error - tolerance.rtol * expected.value.double().abs()).max().item())

    def proposal(self) -> str:
        wanted = SPARE * self.excess
        return "atol=%.0e" % wanted if 0 < wanted < PROPOSED_SHARE * self.usual else "other tolerances"


def _word(dtype: Any) -> str:
    short = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "float64": "fp64"}
    name = str(dtype).replace("torch.", "")
    return short.get(name, name)


if __name__ == "__main__":
    import boot  # this file's folder is on sys.path, as for any script

    boot.bind_package()
    main(sys.argv[1:])
