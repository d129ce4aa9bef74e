"""The noun that bench answers: one script's times over n runs, as the script itself says them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

SCHEMA = 1


@dataclass(frozen=True)
class BenchResult:
    """Every sample of one script, their summary, and the lines they came from. The deviation is of a sample (n-1)."""

    cmd: tuple[str, ...]
    n: int
    warmup: int
    mean_ms: float
    std_ms: float | None  # null for one sample
    min_ms: float
    max_ms: float
    median_ms: float
    all_ok: bool | None  # null where the script does not say
    samples: tuple[dict[str, Any], ...]  # the lines as printed; of a long one only its ms and ok
    samples_ms: tuple[float, ...]
    roofline_inputs: dict[str, float | None] = field(default_factory=dict)  # min_bytes or bytes, flops
    dtype: str | None = None
    waited_for_gpu_s: float | None = None  # until another hotkernel was done with the card
    warnings: tuple[str, ...] = ()
    truncated: bool = False  # whether lines were left out or shortened; never samples_ms
    schema: int = SCHEMA
