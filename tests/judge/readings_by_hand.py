"""Readings as a card like an H200 would give them, made by hand: known rates, known spread, known distance of processes."""

from __future__ import annotations

import math
from typing import Any

L2_BYTES = 62_914_560
GBPS = {"read": 4320.0, "copy": 4300.0, "triad": 4360.0, "write": 4680.0}  # of 1 GiB arrays on an H200
WOBBLE = (1.0, 1.002, 0.998, 1.001, 0.999)  # median 1, median absolute deviation 0.1 %


def values(middle: float) -> list[float]:
    return [middle * wobble for wobble in WOBBLE]


def readings(scale: float = 1.0, apart: float = 0.003, **changed: Any) -> dict[str, Any]:
    """`scale` multiplies every time; `apart` is how far the sides of each pair lie from each other, as a log ratio."""
    bandwidth = []
    for operation, gbps in GBPS.items():
        for multiple in (1, 2, 4, 8, 16, 32):
            moved = multiple * L2_BYTES
            us = (moved / gbps / 1e3 + 1.0) * scale  # a launch gap of 1 us
            bandwidth += [
                {"operation": operation, "kernel": "torch", "moved_bytes": moved, "us": values(1.05 * us)},
                {"operation": operation, "kernel": "triton", "moved_bytes": moved, "us": values(us)},
            ]
    pair = [values(30.0), values(30.0 * math.exp(apart))]
    return {
        "device": "cuda", "gpu": "NVIDIA H200", "uuid": "fcdd3975-a188-f16e-478e-b9068b3bcdc7", "l2_bytes": L2_BYTES,
        "torch": "2.13.0", "triton": "3.9.0", "error": None, "stage": "matrix", "refused": {}, "seconds": {"bandwidth": 5.0},
        "bandwidth": bandwidth,
        "l2_copy": [{"operation": "copy", "kernel": "triton", "moved_bytes": L2_BYTES // 2, "us": values(5.0)}],
        "launch": {"gap_us": values(1.5), "with_event_us": values(2.3), "host_us": values(3.0)},
        "matrix": [
            {"dtype": "bf16", "size": 4096, "burst_us": values(200.0)},
            {"dtype": "bf16", "size": 8192, "burst_us": values(1400.0), "sustained_us": [1400.0] * 3 + [1600.0] * 5},
            {"dtype": "fp32", "size": 8192, "burst_us": values(21_000.0)},
        ],
        "noise": [{"kernel": name, "pairs": [pair, pair[::-1]]} for name in ("clone", "softmax", "mv", "mm")],
        **changed,
    }
