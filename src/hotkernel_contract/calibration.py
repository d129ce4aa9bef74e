"""Measures what this card reaches, in the user's Python, and writes the readings as JSON; concludes nothing, prints nothing.

    python calibration.py PLAN.json READINGS.json

Standard library and torch, Triton where it is there, Python 3.9 on. Part by part, and what was read is written after each,
so that a card that fails half-way leaves what it gave until then.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any, Dict, List

VITAL = ("card", "bandwidth")  # without these there is no calibration


def main(argv: List[str]) -> int:
    """Measure by the plan; 3 when a vital part failed."""
    from hotkernel_contract import ceilings, twins

    plan = json.loads(Path(argv[1]).read_text(encoding="utf-8"))
    parts = [("noise", twins.measure_noise),  # first: it forks, which a process that uses CUDA cannot
             ("card", look), ("bandwidth", ceilings.measure_streams), ("launches", ceilings.measure_launches),
             ("matrix", ceilings.measure_matrix)]
    found: Dict[str, Any] = {"device": plan["device"], "torch": ceilings.torch.__version__, "error": None, "refused": {},
                             "triton": ceilings.triton and ceilings.triton.__version__, "seconds": {}}
    for name, part in parts:
        if name == "launches" and plan["device"] != "cuda":
            continue
        found["stage"], began = name, time.perf_counter()
        write(argv[2], found)
        try:
            part(plan, found)
        except (RuntimeError, OSError, ValueError) as error:
            found["refused"][name] = "%s: %s" % (type(error).__name__, str(error)[:500])
            if name in VITAL:
                found["error"] = found["refused"][name]
                break
        found["seconds"][name] = time.perf_counter() - began
    write(argv[2], found)
    return 3 if found["error"] else 0


def look(plan: Dict[str, Any], found: Dict[str, Any]) -> None:
    """What card this is."""
    import torch

    found["l2_bytes"] = plan["l2_bytes"]
    if plan["device"] != "cuda":
        return
    if not torch.cuda.is_available():
        raise RuntimeError("torch %s sees no card (it is built for CUDA %s)" % (torch.__version__, torch.version.cuda))
    properties = torch.cuda.get_device_properties(0)
    found["gpu"], found["uuid"] = properties.name, str(getattr(properties, "uuid", "")) or None
    found["l2_bytes"] = int(plan["l2_bytes"] or properties.L2_cache_size)


def write(path: str, found: Dict[str, Any]) -> None:
    """The readings so far, whole or not at all."""
    partial = path + ".partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(found, file)
    Path(partial).replace(path)


if __name__ == "__main__":
    import boot  # this file's folder is on sys.path, as for any script

    boot.bind_package()
    sys.exit(main(sys.argv))
