"""The nouns of the judge: a side, one batch, one value, a pair, a measurement, a check, a fault, a verdict."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Side(enum.StrEnum):
    """Who ran a batch."""

    BASELINE = "baseline"
    CANDIDATE = "candidate"
    INCUMBENT = "incumbent"  # the best so far, in the same interleaving


class Stage(enum.StrEnum):
    """What a pair is for: to find a difference, or to confirm one found."""

    LOOK = "look"
    CONFIRMATION = "confirmation"
    ALONE = "alone"  # a confirmation's baseline, before a line of the candidate was loaded


class Mode(enum.StrEnum):
    """How a batch is timed (docs/timing.md)."""

    BATCHES = "batches"  # CUDA: all calls queued behind the gate, stamps by the oracle
    LATENCY = "latency"  # CUDA: the gate opens first, launches lie inside; for a call that synchronises
    HOST = "host"  # CUDA where processes cannot share its memory: the referee's clock, copies through the host inside
    CPU = "cpu"  # the referee's clock


class VerdictKind(enum.StrEnum):
    """Five verdicts, and only five."""

    FASTER = "faster"
    SLOWER = "slower"
    INCONCLUSIVE = "inconclusive"
    INCORRECT = "incorrect"
    INVALID = "invalid"


@dataclass(frozen=True)
class Batch:
    """`calls` calls of one side, each on an input of its own, between two stamps that are not the side's."""

    side: Side
    stage: Stage
    pair: int
    value: int  # the two batches of a value share this number
    calls: int
    span_us: float  # stamp1 - stamp0: from before the inputs exist until the last output is complete
    at_s: float  # since the verify began
    check_us: float | None = None  # stamp2 - stamp1: the check of all outputs, where the device timed it
    clock_mhz: int | None = None
    throttle_mask: int | None = None  # NVML's clocks-event reasons
    fill_us: float | None = None  # of the span, what the fill took; compared with the fill alone, it is the canary
    void: str | None = None  # why this batch counts for nothing, if so
    ahead_us: float | None = None  # what the call ahead of it took, which is in no span; null where there is none

    def __post_init__(self) -> None:
        if self.calls < 1:
            raise ValueError(f"a batch of {self.calls} calls")


@dataclass(frozen=True)
class Fill:
    """A batch with no call in it: what filling `calls` slots costs by itself, by the same stamps."""

    calls: int
    span_us: float


@dataclass(frozen=True)
class Value:
    """One side's time per call, from the slope between two batches."""

    side: Side
    stage: Stage
    pair: int
    value: int
    us: float
    long_us: float | None = None  # the longer batch alone, fill taken off, by its calls: overheads included
    short_us: float | None = None  # the shorter one alone, likewise


@dataclass(frozen=True)
class Pair:
    """What one pair of processes says: the log of baseline's time over candidate's; above 0 the candidate is faster."""

    stage: Stage
    pair: int
    log_ratio: float
    within_sd: float | None  # standard error of `log_ratio` from the values inside, tick included; null with one value
    values: int
    long_log_ratio: float | None = None  # the same, read off the longer batches alone; far below: a slowed short batch
    alone_log_ratio: float | None = None  # the same, against this baseline as it was alone; far below: it was disturbed


@dataclass(frozen=True)
class Plan:
    """How much is measured; made from the baseline's time alone."""

    mode: Mode
    n1: int
    n2: int
    values_per_pair: int
    looks: tuple[int, ...]
    confirmation_pairs: int
    gate_us: float | None = None
    slots: int | None = None
    tick_us: float = 0.0  # the clock's resolution
    is_shared: bool = False  # the calls of a batch share inputs that count: each batch has them drawn anew
    links: tuple[int, ...] = ()  # calls of the shorter and the longer chain; empty where there are none
    notes: tuple[str, ...] = ()  # every fall-back, with its reason

    def __post_init__(self) -> None:
        if not 0 <= self.n1 < self.n2 or list(self.looks) != sorted(set(self.looks)) or not self.looks:
            raise ValueError(f"a plan with n1={self.n1} n2={self.n2} looks={self.looks}")


@dataclass(frozen=True)
class Measurement:
    """One side's time per call: a time never travels without its count and spread. Deviations are of a sample (n-1)."""

    n: int
    mean_ms: float
    std_ms: float | None  # null for one sample
    min_ms: float
    max_ms: float
    median_ms: float
    samples: tuple[float, ...]  # ms, in order


@dataclass(frozen=True)
class Check:
    """One side's outputs against the expected values, over every output of every batch so far."""

    side: Side
    outputs: int
    ok: bool
    within_share: float | None = None  # elements inside rtol/atol, of the worst output
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    rms_error_ulps: float | None = None  # over rows, in units of the dtype's last place; of several outputs, the worst's
    rounds: dict[str, int] = field(default_factory=dict)  # outputs checked on other inputs than the timed ones, by kind
    rule: str | None = None
    detail: str = ""

    def __post_init__(self) -> None:
        if self.ok == (self.rule is not None):
            raise ValueError(f"a check with ok={self.ok} and rule={self.rule}")


@dataclass(frozen=True)
class Fault:
    """Something that makes the comparison `invalid` or `incorrect`, whatever the times say; it names its rule."""

    kind: VerdictKind
    rule: str
    reason: str
    side: Side | None = None

    def __post_init__(self) -> None:
        if self.kind not in (VerdictKind.INVALID, VerdictKind.INCORRECT):
            raise ValueError(f"a fault cannot be {self.kind}")


@dataclass(frozen=True)
class Evidence:
    """Everything the verdict is made of, and nothing else: the same evidence gives the same verdict for ever."""

    plan: Plan
    batches: tuple[Batch, ...] = ()
    fills: tuple[Fill, ...] = ()
    faults: tuple[Fault, ...] = ()
    earlier: tuple[Pair, ...] = ()  # every pair of earlier verifies of the same key, both stages, in order, as numbered
    floor_us: float | None = None  # bytes over the calibrated bandwidth; null without a calibration
    copy_us: float | None = None  # where outputs are copied out inside the interval: about what that costs a call
    quiet: bool = True  # false when values were void too often: the card was not quiet
    note: str = ""  # what made it not quiet
    chains: tuple[Batch, ...] = ()  # of a confirmation: each call's input was made when the call before had ended


@dataclass(frozen=True)
class Verdict:
    """The decision, in one of five words, with its reason; a speedup exactly when there is a time on both sides."""

    kind: VerdictKind
    reason: str
    rule: str | None = None
    speedup: float | None = None
    interval: tuple[float, ...] | None = None  # 99 %, of the speedup: (low, high)
    equivalent: bool | None = None  # the interval lies inside +-1 %
    smallest_effect_pct: float | None = None  # what could have been seen, where nothing was
    pairs: int = 0
    pooled: tuple[Pair, ...] = field(default=(), repr=False)  # the pairs the estimate is made of

    def __post_init__(self) -> None:
        refused = self.kind in (VerdictKind.INVALID, VerdictKind.INCORRECT)
        if refused and (self.speedup is not None or not self.rule):
            raise ValueError(f"a verdict of {self.kind} with speedup={self.speedup} and rule={self.rule}")
        if self.kind in (VerdictKind.FASTER, VerdictKind.SLOWER) and self.speedup is None:
            raise ValueError(f"a verdict of {self.kind} needs a speedup")
