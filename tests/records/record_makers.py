"""Makes comparisons and records for the memory's tests; every value may be given."""

from __future__ import annotations

import hashlib
import os
import traceback
from collections.abc import Callable
from typing import Any

from hotkernel.schema.comparison import Comparison, Source
from hotkernel.schema.record import Record
from hotkernel.schema.verdict import Measurement, VerdictKind

UUID = "GPU-5b0cd1a2-0000-1111-2222-333344445555"


def measured(mean_ms: float, n: int = 7, std_ms: float = 0.0002) -> Measurement:
    samples = tuple(mean_ms + std_ms * (number - n // 2) for number in range(n))
    return Measurement(n, mean_ms, std_ms, min(samples), max(samples), mean_ms, samples)


def compared(
    verdict: str = "faster",
    speedup: float | None = 1.5,
    *,
    number: int = 0,
    spread: float = 0.01,
    source: str | None = None,
    **given: Any,
) -> Comparison:
    """A comparison of the target `rms`, verified on an H200 unless `given` says otherwise."""
    kind = VerdictKind(verdict)
    refused = kind in (VerdictKind.INCORRECT, VerdictKind.INVALID)
    speedup = None if refused else speedup
    text = source if source is not None else f"def candidate(x, w):\n    return x * {number}\n"
    values: dict[str, Any] = {
        "id": f"20261130-1352{number:02d}-a1b2c3d4",
        "target": "rms",
        "verdict": kind,
        "reason": f"it is {kind}",
        "speedup": speedup,
        "baseline": measured(0.054),
        "candidate": None if speedup is None else measured(0.054 / speedup),
        "timestamp": f"2026-11-30T13:52:{number:02d}+00:00",
        "protocol": 4,
        "device": "cuda",
        "assurance": "process",
        "rule": "a_rule" if refused else None,
        "interval_99": None if speedup is None else (speedup - spread, speedup + spread),
        "gpu": "NVIDIA H200",
        "gpu_uuid": UUID,
        "power_limit_w": 700.0,
        "sources": {
            "baseline": Source("rms_baseline.py", "b" * 64),
            "candidate": Source("rms_candidate.py", hashlib.sha256(text.encode("utf-8", "replace")).hexdigest(), text),
        },
    }
    return Comparison(**{**values, **given})


def self_reported(verdict: str = "faster", speedup: float | None = 1.5, **given: Any) -> Comparison:
    """What a pair of scripts says of itself."""
    return compared(
        verdict, speedup, **{"assurance": "self_reported", "self_reported": True, **given}
    )


def recorded(
    comparison: Comparison, *, second: int = 0, note: str = "", who: str = "ada", target: str = "rms"
) -> Record:
    return Record(target, f"2026-11-30T14:00:{second:02d}.000000+00:00", comparison, note, who)


def in_a_child(what: Callable[[], str], *, as_nobody: bool = False, before: Callable[[], None] | None = None) -> str:
    """What `what` returns in a forked process, or the text of its exception; limits set there end with it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if as_nobody and os.geteuid() == 0:  # root may write everywhere
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            if before:
                before()
            answer = what()
        except BaseException as error:  # noqa: BLE001 - whatever it was, the parent must hear of it
            answer = f"{type(error).__name__}: {error}" if hasattr(error, "fix") else traceback.format_exc()
        os.write(writing, answer.encode("utf-8", "replace"))
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return answer
