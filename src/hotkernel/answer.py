"""The parts of a comparison that are not measured: who, what, where, and what held the workers; decides nothing."""

from __future__ import annotations

import datetime
import statistics
from collections.abc import Mapping
from typing import Any

from hotkernel import __version__
from hotkernel.judge import roofline
from hotkernel.schema.comparison import PROTOCOL, Comparison, Versions
from hotkernel.schema.request import Request
from hotkernel.schema.roofline import Calibration
from hotkernel.schema.verdict import Measurement, Verdict
from hotkernel_contract.protocol import CONFINEMENT


def head(request: Request, target: Mapping[str, Any], verdict: Verdict, pins: Mapping[str, str], held: int) -> Comparison:
    """A comparison with everything but its measurements; `target` is what the oracle said of it, `held` a mask."""
    confinement = confined_by(held)
    on_card = target.get("device") == "cuda"
    return Comparison(
        id=request.id, target=target.get("name", request.target), verdict=verdict.kind, reason=verdict.reason,
        rule=verdict.rule, speedup=verdict.speedup, interval_99=verdict.interval, equivalent=verdict.equivalent,
        smallest_effect_pct=verdict.smallest_effect_pct, baseline=None, candidate=None,
        timestamp=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"), protocol=PROTOCOL,
        device=target.get("device", request.device or "unknown"), confinement=confinement,
        assurance="process" if confinement["landlock"] else "cooperative", incumbent_id=request.incumbent_id,
        roofline_inputs={"min_bytes": target.get("min_bytes"), "flops": target.get("flops")},
        gpu=request.gpu if on_card else None, gpu_uuid=request.gpu_uuid if on_card else None,
        driver=request.driver if on_card else None, power_limit_w=request.power_limit_w if on_card else None,
        **baselines(target), case=target.get("case", ""), case_names=tuple(target.get("cases", ())),
        shapes=target.get("shapes", {}), dtype=target.get("dtype"), sources=request.sources, pins=dict(pins), cmds=request.cmds,
        versions=Versions(hotkernel=__version__, **{**request.versions, **target.get("versions", {})}))


def baselines(target: Mapping[str, Any]) -> dict[str, Any]:
    """The times of several baselines and which was the fastest; nothing where there is one."""
    times_us: dict[str, float] = target.get("baselines_us", {})
    if len(times_us) < 2:
        return {}
    return {"baselines_ms": {name: us / 1e3 for name, us in times_us.items()}, "baseline_name": target["baseline_name"]}


def medians(times: Mapping[str, list[float]]) -> dict[str, float] | None:
    """Of each side's times the median; None where there are none."""
    return {side: statistics.median(found) for side, found in times.items()} or None


def in_ms(times_us: Mapping[str, float]) -> dict[str, float] | None:
    """Of each side; None where there are none."""
    return {side: us / 1e3 for side, us in times_us.items()} or None


def confined_by(held: int) -> dict[str, bool]:
    """What held every worker of a verify; a process of the same user that nothing holds could reach the judge."""
    return {"own_session": True, **{name: bool(held >> bit & 1) for bit, name in enumerate(CONFINEMENT)}}


def ceiling(calibration: Calibration | None, target: Mapping[str, Any], candidate: Measurement | None) -> dict[str, Any]:
    """What the candidate reaches of what this card does for such a call, and which roof that is; nothing where unknown."""
    if calibration is None or candidate is None:
        return {}
    written, moved = target["output_bytes"], target["min_bytes"]
    read = max(target["streamed_bytes"], moved - written)  # a target that declares more knows what else is read, in place say
    dtype = roofline.DTYPES_OF_TORCH.get(str(target["dtype"]).removeprefix("torch."))
    roof = roofline.ceiling_us(calibration, moved, read / max(read + written, 1), target["flops"], dtype)
    return {"ceiling_share_pct": 100 * roof[0] / candidate.mean_ms / 1e3, "ceiling_bound": roof[1]} if roof else {}
