"""CUPTI's own kernel time of functions over rotated inputs, by torch.profiler: a second opinion on verify's device time.

    python benchmarks/cupti_times.py FILE:FUNCTION[@BASELINE] …   (in the Python that has torch; one JSON line each)

FILE:FUNCTION is called with the inputs of the Target that BASELINE (default: FILE) defines, each call on inputs of its own
as in verify's batches, all queued behind a spin. `cupti_us` is the sum of the kernels that a call launches, gaps left out;
`gap_us` is what lies between kernels per call, which verify's device time holds too.
"""

from __future__ import annotations

import itertools
import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

from hotkernel_contract.line import rotated_inputs
from hotkernel_contract.loading import load_file, load_function
from hotkernel_contract.target import find_target

CALLS = 40  # fewer where they would take longer than LONGEST_S
LONGEST_S = 1.0
SPIN_CYCLES = 40_000_000  # about 20 ms, in which all calls are queued
MEMORY_SHARE = 0.25


def main() -> None:
    """One line for each argument."""
    for word in sys.argv[1:]:
        spec, _, baseline = word.partition("@")
        target = find_target(load_file(Path(baseline or spec.rpartition(":")[0])))
        print(json.dumps({"function": spec, **measure(target, load_function(spec))}), flush=True)


def measure(target, function) -> dict:
    """Microseconds a call that CUPTI saw on the device, warm, over inputs that do not repeat where memory holds so many."""
    with torch.no_grad():
        sets = arguments_of(target)
        fit = int(MEMORY_SHARE * torch.cuda.mem_get_info()[0] // max(1, size_of(sets[0])))
        while len(sets) < min(CALLS, fit):
            sets += arguments_of(target)
        calls = calls_of(function, sets)
        for at in range(2 * calls):
            held = function(*sets[at % len(sets)])
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
            torch.cuda._sleep(SPIN_CYCLES)
            held = [function(*sets[at % len(sets)]) for at in range(calls)]
            torch.cuda.synchronize()
        del held
    on_device = sorted((e for e in trace.events() if e.device_type == torch.autograd.DeviceType.CUDA),
                       key=lambda e: e.time_range.start)
    spans = [(e.time_range.start, e.time_range.end) for e in on_device if "spin" not in e.name]
    gaps = [later[0] - earlier[1] for earlier, later in itertools.pairwise(spans)]
    return {"cupti_us": sum(end - start for start, end in spans) / calls, "gap_us": sum(gaps) / calls,
            "launches_per_call": len(spans) / calls, "calls": calls, "sets": len(sets),
            "gpu": torch.cuda.get_device_name(), "torch": torch.__version__}


def arguments_of(target) -> list:
    """Positional arguments of some calls; what streams is another in each."""
    return [tuple(each.values()) for each in rotated_inputs(target, "cuda")[0]]


def calls_of(function, sets) -> int:
    """How many calls are timed, by how long one takes."""
    function(*sets[0])
    torch.cuda.synchronize()
    began = time.perf_counter()
    function(*sets[0])
    torch.cuda.synchronize()
    return int(min(CALLS, max(3, LONGEST_S / (time.perf_counter() - began))))


def size_of(inputs) -> int:
    """Bytes of one call's inputs."""
    return sum(x.numel() * x.element_size() for x in inputs)


if __name__ == "__main__":
    main()
