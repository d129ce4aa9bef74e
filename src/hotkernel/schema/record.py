"""The nouns of the memory: a record, what the loop should do after it, and the answers of record and history."""

from __future__ import annotations

import enum
import re
from dataclasses import dataclass, field

from hotkernel.schema.comparison import Comparison
from hotkernel.schema.explanation import Difference
from hotkernel.schema.verdict import VerdictKind

SCHEMA = 1  # raised when a log changes its meaning

TARGET_PATTERN = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]|\.(?=[A-Za-z0-9_-])){0,63}")  # a folder's name everywhere
RESERVED_TARGETS = frozenset({"profiles"})  # a folder of results/ that holds no records


class Decision(enum.StrEnum):
    """What to do with a change."""

    KEEP = "keep"
    EQUAL = "equal"  # within the noise of the best so far
    REVERT = "revert"


class Basis(enum.StrEnum):
    """What a decision rests on."""

    BASELINE = "baseline"  # nothing is kept yet: the verdict itself
    INCUMBENT = "incumbent"  # the best so far ran in the same interleaving
    INTERVALS = "intervals"  # two verifies at two times: their intervals are held against each other
    VERDICT = "verdict"  # incorrect, invalid or slower: no time can help


@dataclass(frozen=True)
class Advice:
    """Keep, equal or revert; what is left to the measured ceiling; and whether to stop."""

    decision: Decision
    reason: str
    basis: Basis
    best_id: str | None = None  # the run's best before this one
    best_speedup: float | None = None
    headroom_pct: float | None = None  # of the time of what is in force now, above the measured ceiling
    changes_without_gain: int = 0  # in a row, this one included
    stop: bool = False
    stop_reason: str | None = None

    def __post_init__(self) -> None:
        if self.stop != (self.stop_reason is not None):
            raise ValueError(f"advice with stop={self.stop} and stop_reason={self.stop_reason}")

    @property
    def keep(self) -> bool:
        return self.decision is Decision.KEEP


@dataclass(frozen=True)
class Record:
    """One log: what was tried on a target, by whom, and the whole comparison that says what came of it."""

    target: str
    timestamp: str  # ISO 8601, UTC, when it was recorded
    comparison: Comparison
    note: str = ""
    who: str = ""
    commit: str | None = None  # of the checkout it was recorded in
    candidate_file: str | None = None  # the copy of the candidate beside the log
    baseline_files: dict[str, str] = field(default_factory=dict)  # what the baseline loaded: pinned path -> text
    why: Difference | None = None  # what profiles of before and after say, as explain told the caller; not verify's
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        found = self.comparison
        if not TARGET_PATTERN.fullmatch(self.target):
            raise ValueError(f"{self.target[:80]!r} is no target's name")
        has_times = (found.baseline and found.candidate) or found.cases  # over cases, each has its own
        if found.verdict is VerdictKind.FASTER and not (found.speedup and has_times):
            raise ValueError("a record that says faster, without its times")
        if found.verdict in (VerdictKind.INCORRECT, VerdictKind.INVALID) and found.speedup is not None:
            raise ValueError(f"a record that says {found.verdict}, with a speedup")
        if found.confirms is not None:
            raise ValueError(f"a confirmation of {found.confirms[:64]} is no record of its own")

    @property
    def is_verified(self) -> bool:
        """Whether hotkernel measured it, rather than the scripts themselves."""
        return not self.comparison.self_reported and self.comparison.assurance != "self_reported"


@dataclass(frozen=True)
class LaterReason:
    """Why a row won, as profiles said after it was recorded."""

    of: str  # the comparison's id
    timestamp: str  # ISO 8601, UTC, when it was added
    why: Difference
    schema: int = SCHEMA


@dataclass(frozen=True)
class Logged:
    """A record and the file it stands in, as a path below the folder of LEADERBOARD.md, with forward slashes."""

    log: str
    record: Record
    confirmations: tuple[Comparison, ...] = ()  # independent verifies of this row, asked for as such; oldest first
    later_reason: LaterReason | None = None

    @property
    def why(self) -> Difference | None:
        """What the profiles say: as it was recorded, else as it was added."""
        return self.record.why or (self.later_reason.why if self.later_reason else None)

    @property
    def confirmed(self) -> int:
        """How many of the confirmations came to the row's own verdict."""
        return sum(each.verdict is self.record.comparison.verdict for each in self.confirmations)


@dataclass(frozen=True)
class Superseded:
    """What is still readable of a log of an older protocol; listed apart, never counted."""

    log: str
    target: str
    reason: str
    verdict: str | None = None
    speedup: float | None = None
    baseline_ms: float | None = None
    candidate_ms: float | None = None
    note: str = ""
    who: str = ""
    timestamp: str = ""


@dataclass(frozen=True)
class Skipped:
    """A file under results/ that is no record, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class RecordResult:
    """Where the record went, its row on the board, and what to do next."""

    log: str
    leaderboard: str
    row: str
    keep: bool
    advice: str
    decision: Decision
    basis: Basis
    id: str
    target: str
    verdict: VerdictKind
    speedup: float | None
    best_id: str | None
    best_speedup: float | None
    headroom_pct: float | None
    changes_without_gain: int
    stop: bool
    stop_reason: str | None
    existed: bool  # this comparison was recorded before: no row was added
    candidate_copy: str | None
    speedup_cell: str
    candidate_mean_ms: float | None
    improved_on_best: bool
    equivalent_to_best: bool
    previous_best_candidate_ms: float | None
    previous_best_log: str | None
    previous_best_scope: str
    all_time_best_candidate_ms: float | None  # of everybody's faster rows of this target and card, this one left out
    all_time_best_log: str | None
    all_time_best_note: str
    confirmations: int  # independent verifies of this row that are kept with it
    confirmed: int  # of them, those that came to its verdict
    rows: int  # on the board
    superseded_rows: int
    skipped: tuple[Skipped, ...] = ()
    skipped_total: int = 0
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA


@dataclass(frozen=True)
class HistoryEntry:
    """One try, in short."""

    log: str
    target: str
    timestamp: str
    verdict: VerdictKind
    rule: str | None
    speedup: float | None
    interval_99: tuple[float, ...] | None
    decision: Decision
    note: str
    who: str
    gpu: str | None
    assurance: str
    id: str
    candidate_copy: str | None
    reason: str = ""
    confirmations: int = 0
    confirmed: int = 0


@dataclass(frozen=True)
class HistoryResult:
    """What was tried, the newest first: what a client has no room for is the oldest."""

    entries: tuple[HistoryEntry, ...]
    total: int
    truncated: bool
    targets: tuple[str, ...]
    won: int  # of all: kept when it was made
    lost: int
    superseded: tuple[Superseded, ...] = ()  # of an older protocol or baseline: tried too, and not comparable
    superseded_total: int = 0
    skipped: tuple[Skipped, ...] = ()
    skipped_total: int = 0
    warnings: tuple[str, ...] = field(default=())
    schema: int = SCHEMA


@dataclass(frozen=True)
class SourceChange:
    """Two sources line by line, as a unified diff; null where one of them is not at hand."""

    before: str  # what each is, in a few words
    after: str
    text: str | None
    added: int
    removed: int
    note: str = ""  # why there is none, or that it was cut


@dataclass(frozen=True)
class Figures:
    """One figure of two records."""

    figure: str
    before: str | float | None
    after: str | float | None


@dataclass(frozen=True)
class ShowResult:
    """One record for a reader: what was tried, what came of it, and how its source differs from another's."""

    entry: HistoryEntry
    advice: str  # as it stood when the record was made
    mean_ms: dict[str, float | None]  # by side
    ceiling_share_pct: float | None
    why: str | None  # what the profiles say
    against: HistoryEntry | None
    text: str | None  # the candidate's source; with `against` a unified diff from that one's to this one's
    added: int | None = None  # lines, in a diff
    removed: int | None = None
    note: str = ""  # where there is no text or it was cut, why
    figures: tuple[Figures, ...] = ()  # of the two records, where one is held against another
    confirmations: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA


@dataclass(frozen=True)
class SupersedeResult:
    """Which logs now lie apart, and what became of the target's pins."""

    target: str
    folder: str
    moved: tuple[str, ...]  # the logs, as they were called
    left: int  # records of the target that still count
    pins_forgotten: bool  # the next verify pins the baseline as it is then
    leaderboard: str
    warnings: tuple[str, ...] = ()
    schema: int = SCHEMA
