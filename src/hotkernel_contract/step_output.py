"""Holds what a step or one call in it gives against what it gave before; the sharp rule for calls is verify's own."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict, Optional, Tuple

import torch

from hotkernel_contract.compare import Expected, Tolerance, statistics

# Relative RMS error of an output's worst row, by its dtype: what other roundings in one part become after many layers.
RTOL = {"float64": 1e-6, "float32": 1e-3, "float16": 2e-2, "bfloat16": 5e-2}
DUST = 1e-3  # of the median row's RMS: a smaller row is nothing


def named_output(script: Any, name: str, returned: Any) -> Dict[str, Any]:
    """The tensors that are compared, by name."""
    if name and name not in script.values:
        raise LookupError("the script has no variable %r" % name)
    found: Dict[str, Any] = {}
    gather(script.values[name] if name else returned, name or "output", found)
    if name and not found:
        raise LookupError("%s holds no tensor and no number" % name)
    return found


def gather(value: Any, name: str, found: Dict[str, Any]) -> None:
    if isinstance(value, torch.Tensor):
        found[name] = value.detach().cpu()
    elif isinstance(value, (int, float)):
        found[name] = torch.tensor(value)
    elif isinstance(value, (list, tuple)):
        for at, each in enumerate(value):
            gather(each, "%s[%d]" % (name, at), found)
    elif hasattr(value, "items"):
        for key, each in value.items():
            gather(each, "%s.%s" % (name, key), found)


def held_against(output: Dict[str, Any], request: Dict[str, Any]) -> Tuple[Optional[str], Optional[float]]:
    """What is wrong with it, and the worst error; the first run's is what the others are held against."""
    path = Path(request["expected"])
    if not path.exists():
        torch.save(output, path)
        return None, None
    expected = torch.load(path, weights_only=True)
    if list(expected) != list(output):
        return "the output holds %s, the first run's %s" % (", ".join(output), ", ".join(expected)), None
    worst = 0.0
    for name, e in expected.items():
        y = output[name]
        if (y.shape, y.dtype) != (e.shape, e.dtype):
            return "%s is %s %s, the first run's %s %s" % (name, list(y.shape), y.dtype, list(e.shape), e.dtype), None
        if not e.dtype.is_floating_point:
            if not torch.equal(y, e):
                return "%s differs from the first run's in %d of %d" % (name, int((y != e).sum()), e.numel()), None
            continue
        error = row_error(y, e)
        allowed = request["rtol"] if request["rtol"] is not None else RTOL.get(str(e.dtype).replace("torch.", ""), 0.1)
        worst = max(worst, error)
        if not error <= allowed:
            return "%s is off from the first run's by %.3g of a row's RMS, %.3g is allowed" % (name, error, allowed), worst
    return None, worst


def row_error(y: Any, e: Any) -> float:
    """The worst row's RMS error as a share of its RMS; infinite where NaN or Inf lie elsewhere."""
    y, e = (x.double().reshape(-1, x.shape[-1] if x.dim() else 1) for x in (y, e))
    odd = ~torch.isfinite(e)
    if not torch.equal(odd, ~torch.isfinite(y)) or bool((y[odd & ~torch.isnan(e)] != e[odd & ~torch.isnan(e)]).any()):
        return float("inf")
    difference, e = (torch.where(odd, torch.zeros_like(e), x) for x in (y - e, e))
    rms = e.pow(2).mean(-1).sqrt()
    usual = torch.maximum(rms, DUST * rms.median().clamp_min(1e-30))
    return float((difference.pow(2).mean(-1).sqrt() / usual).max())


def difference(mine: Dict[str, Any], theirs: Dict[str, Any], terms: int) -> Optional[str]:
    """What is wrong with one call's outputs, by the tolerances that verify has."""
    if {name: (y.shape, y.dtype) for name, y in mine.items()} != {name: (e.shape, e.dtype) for name, e in theirs.items()}:
        return "a call of the candidate returns other shapes or dtypes than the original's"
    for name, e in theirs.items():
        defaults: Any = SimpleNamespace(rtol=None, atol=None, steps=0, reduction=terms, max_error_ratio=None)
        tolerance = Tolerance.of(defaults, e.dtype)
        wide = e.double() if e.dtype.is_floating_point else e
        bad, worst = statistics(mine[name], Expected.of(wide, e.dtype), tolerance).tolist()[:2]
        if bad:
            return ("%s of a call in the script: %d of %d elements are out of tolerance, the largest error is %.3g"
                    % (name, bad, e.numel(), worst))
    return None
