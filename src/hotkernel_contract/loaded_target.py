"""A target before anything is judged by it: loaded, its fastest baseline chosen, described, proved; has no slots, no secrets."""

from __future__ import annotations

import hashlib
import math
import os
import sys
import sysconfig
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch

from hotkernel_contract.inputs import is_kept, like
from hotkernel_contract.loading import load_file
from hotkernel_contract.outputs import Observed, observe
from hotkernel_contract.paired import BASELINE
from hotkernel_contract.pool import decoy
from hotkernel_contract.selftest import refuse_weak, rounds_for
from hotkernel_contract.target import Target, TargetError, find_target

SMALL_PART, SMALL_MOST = 256, 4  # each call has its own of so many inputs that are at most this part of those that stream
ROUGH_ROUNDS = 3  # of every baseline in turn, where there are several to choose from


class LoadedTarget:
    """One case of the target in a pinned baseline file, on its device; `observe` calls the baseline, and comes first."""

    seen: Observed
    card: Any = None

    def __init__(self, baseline: str, device: str, case: str) -> None:
        before = set(sys.modules)
        whole = self.target = find_target(load_file(Path(baseline)))
        if whole.cases:
            self.target = whole.of_case(case or next(iter(whole.cases)))
        self.device = device or self.target.pick_device()
        if self.device == "cuda" and not torch.cuda.is_available():
            raise TargetError("the target is for CUDA and torch sees no card here")
        if self.device == "cuda":
            from hotkernel_contract.card import Card

            torch.cuda.init()
            self.card = Card()
        self.files = {**hashes_of(set(sys.modules) - before), **hashes_of_files(whole)}
        self.cases = list(whole.cases)

    def observe(self) -> None:
        """Choose the fastest baseline as the function, and call it: what every other call's outputs must be like."""
        self.target, self.times_us, self.baseline_name = self._fastest(self.target.settle(self.device))
        self.seen = observe(self.target, self.device)
        self.bytes = {name: x.numel() * x.element_size() for name, x in self.seen.inputs.items()}
        self.target.keep_small(self._small())
        self.tolerances = self.seen.tolerances(self.target)
        self.call = {**self.target.call.to_plain(), "names": [kind.name for kind in self.seen.returned],
                     "target": self.target.name, "case": self.target.case, "baseline": self.baseline_name}

    def describe(self) -> Dict[str, Any]:
        """What it is, and how long one call of it takes about."""
        target, seen, sizes = self.target, self.seen, self._sizes()
        return {
            "name": target.name, "device": self.device, "baseline_us": self.times_us[self.baseline_name or BASELINE],
            "baselines_us": self.times_us, "baseline_name": self.baseline_name or BASELINE, "case": target.case,
            "shapes": {n: list(x.shape) for n, x in seen.inputs.items()},
            "dtype": str(next(iter(seen.inputs.values())).dtype), "rotate": list(target.rotate), **sizes,
            "is_shared": bool(self._shared()),
            "outputs": [kind.name for kind in seen.kinds], "returned": len(seen.returned),
            "min_bytes": target.min_bytes or sizes["streamed_bytes"] + sizes["output_bytes"], "flops": target.flops,
            "reuses_output": target.reuses_output, "cannot_share": self.card.why_not_shared() if self.card else "",
            "rtol": self.tolerances[0].rtol, "atol": self.tolerances[0].atol,
            "free_bytes": torch.cuda.mem_get_info()[0] if self.card else _free_host_bytes(),
            "versions": _versions(),
            "gpu": torch.cuda.get_device_name() if self.card else None,
        }

    def prove(self) -> Tuple[List[str], Dict[str, str]]:
        """Refuse a target whose check would pass plain wrong answers, or not the right one; which other inputs than the
        timed ones it can be held to, and why not the rest."""
        self.tolerances = refuse_weak(self.target, self.device, self.seen)
        return rounds_for(self.target, self.device, self.seen, self.tolerances)

    @property
    def room(self) -> float:
        """How many times as wide as its default an output's tolerance by element is, at most."""
        defaults = self.seen.tolerances(self.target)
        return max([1.0, *(mine.rtol / own.rtol for mine, own in zip(self.tolerances, defaults) if own.rtol)])

    def answer(self, inputs: Dict[str, torch.Tensor]) -> List[torch.Tensor]:
        """What the baseline makes of these inputs, which stay as they are: every output."""
        return list(self.target.run({name: like(x) for name, x in inputs.items()}).values())

    def call_us(self) -> float:
        """About how long one call of the baseline takes, now."""
        return self._rough_us(self.target, self.seen.inputs)

    def median_us(self, call: Callable[[], Any]) -> float:
        """About what `call` takes, on whatever clock there is."""
        if self.card:
            return self.card.rough_us(call)
        call()
        times: List[float] = []
        while len(times) < 3 or (sum(times) < 0.02 and len(times) < 100):
            began = time.perf_counter()
            call()
            times.append(time.perf_counter() - began)
        return sorted(times)[len(times) // 2] * 1e6

    def _shared(self) -> List[str]:
        """Inputs that the calls of a batch share although nobody may prepare anything from them."""
        target = self.target
        return [name for name in self.seen.inputs if name not in target.per_call and name not in target.static_tensors
                and not is_kept(target, name)]

    def _small(self) -> List[str]:
        """Those that are small enough for each call to have its own; none where they are many: each is one more copy a call.

        A module's weights stay shared: it would bind them anew for each call.
        """
        streamed = sum(self.bytes[name] for name in self.target.rotate)
        found = [name for name in self._shared() if name in self.target.inputs and self.bytes[name] * SMALL_PART <= streamed]
        return found if len(found) <= SMALL_MOST else []

    def _sizes(self) -> Dict[str, int]:
        """Bytes that stream in, that come out, and that one slot costs with all its copies. Of what a call writes in place,
        only what it changed is known to move."""
        target, seen = self.target, self.seen
        streamed = sum(size for name, size in self.bytes.items() if name in target.rotate and name not in target.writes)
        returned = sum(y.numel() * y.element_size() for kind, y in zip(seen.kinds, seen.outputs.values()) if not kind.is_written)
        own = sum(self.bytes[name] for name in target.per_call)
        copies = sum(y.numel() * (2 * y.element_size() + (8 if y.element_size() >= 4 else 4)) for y in seen.outputs.values())
        return {"streamed_bytes": streamed, "output_bytes": returned + seen.changed_bytes, "entry_bytes": 2 * own + copies}

    def _fastest(self, target: Target) -> Tuple[Target, Dict[str, float], str]:
        """The target with the fastest of its baselines as the function, and about what a call of each takes, in us."""
        names = ["", *target.baselines]
        inputs = decoy(target, self.device)
        with torch.no_grad():
            times = dict.fromkeys(names, math.inf)
            for _ in range(ROUGH_ROUNDS if len(names) > 1 else 1):
                for name in names:
                    times[name] = min(times[name], self._rough_us(target.with_function(name), inputs))
        fastest = min(names, key=lambda name: times[name])
        return target.with_function(fastest), {name or BASELINE: us for name, us in times.items()}, fastest

    def _rough_us(self, target: Target, inputs: Dict[str, torch.Tensor]) -> float:
        """Rough time of one call, for the plan and for the choice of a baseline."""
        arguments = target.call.arguments(target.call.values({name: like(x) for name, x in inputs.items()}))
        run = target.call.runner(target.function)
        return self.median_us(lambda: run(arguments))


def hashes_of(names: set) -> Dict[str, str]:
    """SHA-256 of every file of the user's own that loading the baseline brought in."""
    ours = str(Path(__file__).resolve().parent)
    libraries = [str(Path(sysconfig.get_paths()[k]).resolve()) for k in ("stdlib", "purelib", "platlib")]
    found = {}
    for name in names:
        path = getattr(sys.modules.get(name), "__file__", None)
        if path and path.endswith(".py"):
            resolved = str(Path(path).resolve())
            if not resolved.startswith((ours, *libraries)) and "site-packages" not in resolved:
                found[resolved] = hashlib.sha256(Path(resolved).read_bytes()).hexdigest()
    return found


def hashes_of_files(target: Target) -> Dict[str, str]:
    """SHA-256 of the files that inputs come from."""
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in target.files}


def _free_host_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_AVPHYS_PAGES") if hasattr(os, "sysconf") else 1 << 30


def _versions() -> Dict[str, Optional[str]]:
    try:
        import triton

        triton_version = triton.__version__
    except ImportError:
        triton_version = None
    return {"python": "%d.%d.%d" % sys.version_info[:3], "torch": torch.__version__, "triton": triton_version,
            "cuda": torch.version.cuda}
