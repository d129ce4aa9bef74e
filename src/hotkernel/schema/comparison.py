"""A comparison: what verify answers and saves under an id, and what a record is made from."""

from __future__ import annotations

from dataclasses import dataclass, field

from hotkernel.schema.gpu import GpuState
from hotkernel.schema.roofline import Bound
from hotkernel.schema.verdict import Check, Evidence, Measurement, VerdictKind

SCHEMA = 1  # raised when a saved comparison changes its meaning
PROTOCOL = 4  # the timing protocol; docs/timing.md


@dataclass(frozen=True)
class Source:
    """A file that took part, as it was: its name, its SHA-256 and, for a candidate, its text."""

    name: str
    sha256: str
    text: str | None = None


@dataclass(frozen=True)
class Versions:
    """What ran; null for what is unknown."""

    hotkernel: str
    python: str | None = None
    torch: str | None = None
    triton: str | None = None
    cuda: str | None = None


@dataclass(frozen=True)
class CaseResult:
    """One case of a target with several: what a verify of it alone found, under the id that it is saved by."""

    case: str
    id: str
    verdict: VerdictKind
    reason: str
    rule: str | None
    speedup: float | None
    interval_99: tuple[float, ...] | None
    baseline_ms: float | None  # means of a call
    candidate_ms: float | None
    samples: int  # of the candidate
    shapes: dict[str, list[int]]
    dtype: str | None
    baseline_name: str | None = None  # of several, the fastest here
    speedup_over_incumbent: float | None = None
    incumbent_verdict: VerdictKind | None = None
    evidence: Evidence | None = None


@dataclass(frozen=True)
class Comparison:
    """Baseline against candidate: the verdict, both sides' times, and everything needed to recompute it."""

    id: str
    target: str
    verdict: VerdictKind
    reason: str
    speedup: float | None
    baseline: Measurement | None
    candidate: Measurement | None
    timestamp: str  # ISO 8601, UTC
    protocol: int
    device: str  # cuda or cpu
    assurance: str  # process, cooperative; self_reported for script pairs
    self_reported: bool = False
    rule: str | None = None
    interval_99: tuple[float, ...] | None = None
    equivalent: bool | None = None
    smallest_effect_pct: float | None = None
    resolution_us: float | None = None  # what two equal sides may differ by, from the spread of single values
    incumbent: Measurement | None = None
    incumbent_id: str | None = None
    speedup_over_incumbent: float | None = None
    incumbent_verdict: VerdictKind | None = None
    call_ms: dict[str, float] | None = None  # host included, by side
    witness_ms: dict[str, float] | None = None  # what a side's own events claim: shown, never counted
    sustained_ms: dict[str, float] | None = None  # each side alone for seconds, where the power cap held the clock
    setup_ms: dict[str, float] | None = None  # what a side's own setup(static inputs) took, once a process, in no other time
    baselines_ms: dict[str, float] | None = None  # about, of every baseline of the target; the fastest is the baseline
    baseline_name: str | None = None  # which that is, where there are several
    limited_rounds: dict[str, str] = field(default_factory=dict)  # kinds of inputs that the baseline gets wrong, so not asked
    floor_ms: float | None = None
    ceiling_share_pct: float | None = None  # of what this card was measured to do: bandwidth at these bytes, or matrix rate
    ceiling_bound: Bound | None = None  # which of them; null in logs from before it was said, where it is the bandwidth
    roofline_inputs: dict[str, float | None] = field(default_factory=dict)  # min_bytes, flops
    checks: tuple[Check, ...] = ()
    gpu: str | None = None
    gpu_uuid: str | None = None
    driver: str | None = None
    power_limit_w: float | None = None
    gpu_before: GpuState | None = None
    gpu_after: GpuState | None = None
    shapes: dict[str, list[int]] = field(default_factory=dict)
    dtype: str | None = None
    case: str = ""  # of a target with several, which one; empty for the target, and for all of its cases together
    case_names: tuple[str, ...] = ()  # all that the target has
    cases: tuple[CaseResult, ...] = ()  # of the verdict over all of them: speedup is the geometric mean
    sources: dict[str, Source] = field(default_factory=dict)  # baseline, contract, candidate, incumbent
    pins: dict[str, str] = field(default_factory=dict)  # file name -> SHA-256, over what the baseline loads
    versions: Versions | None = None
    confinement: dict[str, bool] = field(default_factory=dict)  # what was had
    cmds: dict[str, list[str]] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    tries: int | None = None  # candidates tried on this target so far, this one included
    seconds: dict[str, float] = field(default_factory=dict)  # where the time went, by phase
    evidence: Evidence | None = None
    witness: dict[str, float | None] = field(default_factory=dict)  # what a side's own clock says; decides nothing
    confirms: str | None = None  # the id of the recorded comparison that this one was made to confirm; it selects nothing
    schema: int = SCHEMA


@dataclass(frozen=True)
class TimedSide(Measurement):
    """A measurement with its samples under the name that hotkernel 0.1 gave them, too."""

    samples_ms: tuple[float, ...] = ()


@dataclass(frozen=True)
class VerifyResult(Comparison):
    """What verify answers: the comparison, and what a reader of hotkernel 0.1's answer looks for. Only the former is kept."""

    n: int | None = None  # pairs of processes; of scripts, counted runs of each
    warmup: int | None = None
    order: str | None = None
    wall_s: float | None = None
    delta_ms: float | None = None  # the baseline's mean less the candidate's
    threshold_ms: float | None = None  # what delta_ms had to exceed
    significant: bool | None = None
    null_because: dict[str, str] = field(default_factory=dict)  # of these keys, why one is null
