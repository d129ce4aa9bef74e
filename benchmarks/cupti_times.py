"""CUPTI's own kernel time of functions over rotated inputs, by torch.profiler: a second opinion on verify's device time.

    python benchmarks/cupti_times.py FILE:FUNCTION[@BASELINE] …   (in the Python that has torch; one JSON line each)

FILE:FUNCTION is called with the inputs of the Target that BASELINE (default: FILE) defines. The sum of the kernels that a
call launches is given, copies included, gaps between launches not.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import torch

from hotkernel_contract.line import rotated_inputs
from hotkernel_contract.target import find_target, load_file, load_function

CALLS = 40


def main() -> None:
    """One line for each argument."""
    for word in sys.argv[1:]:
        spec, _, baseline = word.partition("@")
        target = find_target(load_file(Path(baseline or spec.rpartition(":")[0])))
        print(json.dumps({"function": spec, **measure(target, load_function(spec))}), flush=True)


def measure(target, function) -> dict:
    """Microseconds a call that CUPTI saw on the device, warm, over inputs that outgrow the L2."""
    with torch.no_grad():
        sets, _ = rotated_inputs(target, "cuda")
        sets += rotated_inputs(target, "cuda")[0]
        for at in range(2 * CALLS):
            held = function(*sets[at % len(sets)])
        torch.cuda.synchronize()
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as trace:
            held = [function(*sets[at % len(sets)]) for at in range(CALLS)]
            torch.cuda.synchronize()
        del held
    on_device = [e for e in trace.events() if e.device_type == torch.autograd.DeviceType.CUDA]
    total_us = sum(e.time_range.elapsed_us() for e in on_device)
    return {"cupti_us": total_us / CALLS, "launches_per_call": len(on_device) / CALLS, "calls": CALLS,
            "gpu": torch.cuda.get_device_name(), "torch": torch.__version__}


if __name__ == "__main__":
    main()
