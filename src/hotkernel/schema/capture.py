"""The nouns of a capture: what dominates a model's step, the target made of a row, and a candidate tried in the model."""

from __future__ import annotations

from dataclasses import dataclass, field

from hotkernel.schema.target import NewTarget
from hotkernel.schema.verdict import Measurement, VerdictKind

OPERATOR, MODULE = "operator", "module"


@dataclass(frozen=True)
class CallKind:
    """The calls of a row that were given inputs of one shape, dtype and layout."""

    inputs: tuple[str, ...]  # `[4,512] bfloat16 [512,1]`: shape, dtype, strides; of what is no tensor its type
    calls: int
    time_us: float  # over all these calls


@dataclass(frozen=True)
class CaptureRow:
    """An operator or a class of modules with all its calls; its time contains what it calls."""

    number: int
    kind: str  # operator or module
    name: str
    time_us: float
    pct: float | None  # of the device time of all kernels; where no GPU took part, of the CPU time of the outermost operators
    calls: int
    whole_if_2x: float | None  # times faster that all of it would be, were this twice as fast
    whole_at_most: float | None  # … were this free; null where it is all there is
    inputs: str = ""  # of the heaviest kind of call: shapes and dtypes
    paths: tuple[str, ...] = ()  # of modules, numbers as *
    cannot: str | None = None  # why no target can be made of it, where that is seen from here
    kinds: tuple[CallKind, ...] = ()


@dataclass(frozen=True)
class CapturedTarget:
    """A target made of a row's real calls."""

    row: str
    files: tuple[str, ...]  # beside the target's own: the call it is made of, what is known of it, its tensors
    cases: dict[str, tuple[str, ...]]  # name -> inputs
    new_target: NewTarget
    left_out: tuple[str, ...] = ()  # calls that are not in it, and why


@dataclass(frozen=True)
class Applied:
    """A candidate in the place of what it is a target of, in the user's own script; the script times itself."""

    target: str
    verdict: VerdictKind
    reason: str
    rule: str | None
    speedup: float | None
    before: Measurement | None  # ms of a step, fresh processes in turn
    after: Measurement | None
    swapped_calls: int | None  # in one step
    left_calls: int | None  # of the same name, that are not what the target is made of
    predicted_speedup: tuple[float, ...] | None = None  # Amdahl's: least, likely, most, by verify's interval
    measured_speedup: tuple[float, ...] | None = None  # least, likely, most, by the rounds' 99 % interval
    agrees: bool | None = None
    agreement: str = ""
    comparison: str | None = None  # the verify whose speedup is predicted from
    worst_error: float | None = None  # relative RMS error of the step's output
    cmds: dict[str, list[str]] = field(default_factory=dict)
    self_reported: bool = True


@dataclass(frozen=True)
class CaptureRun:
    """One script under torch.profiler: operators and modules by the time that they take, and what came of a row."""

    script: str
    rows: tuple[CaptureRow, ...]
    n_rows: int  # before the cut
    device: str  # cuda or cpu: what the times are of
    steps: int  # calls of the step that the rows are of
    step_ms: float | None  # of one, under the profiler
    total_us: float | None  # what the shares are of
    gpu_idle_pct: float | None = None
    target: CapturedTarget | None = None
    applied: Applied | None = None
    note: str = ""
    cmd: tuple[str, ...] = ()
    torch: str | None = None
    truncated: bool = False
    warnings: tuple[str, ...] = ()
