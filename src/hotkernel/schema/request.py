"""What the server asks of a referee: everything about one verify that is known before anything is measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hotkernel.schema.comparison import Source
from hotkernel.schema.roofline import Calibration


@dataclass(frozen=True)
class Request:
    """What the server asks of a referee."""

    target: str
    id: str
    baseline_file: str
    sides: dict[str, dict[str, Any]]  # side -> path, names, caches
    environment: dict[str, str]
    scratch: str
    state: str
    device: str
    visible: str  # for CUDA_VISIBLE_DEVICES
    gpu_uuid: str | None
    gpu: str | None
    driver: str | None
    power_limit_w: float | None
    cores: list[int]
    timeout_s: float
    n: int | None
    pins: dict[str, str]  # known from an earlier verify or from new_target; empty: they are made now
    contract_sha256: str
    sources: dict[str, Source]
    calibration: Calibration | None
    incumbent_id: str | None
    versions: dict[str, str | None]
    cmds: dict[str, list[str]]
    contract_edited: bool = False  # the copy beside the target is not what was generated
    warnings: list[str] = field(default_factory=list)
    keep_ledger: bool = True
    confirms: str | None = None  # the recorded comparison that this one is to confirm
    case: str = ""  # of a target with several; empty: its first
    values_per_pair: int = 8
