"""Compares two scripts that time themselves, run in turn; what comes of it is self-reported and says so."""

from __future__ import annotations

import datetime
import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hotkernel import __version__
from hotkernel.harness import scripts
from hotkernel.harness.scripts import Line, Script, ScriptFault
from hotkernel.judge import samples
from hotkernel.judge.script_rounds import decide_scripts
from hotkernel.records.comparisons import new_id
from hotkernel.schema.comparison import PROTOCOL, Comparison, Source, Versions
from hotkernel.schema.verdict import Fault, Side, Verdict, VerdictKind
from hotkernel.session import Session
from hotkernel.tools.bench import check_counts, keep_telling
from hotkernel.tools.card_lock import card_held

SELF_REPORTED = "self_reported"
SAME = ("shape", "dtype", "iters", "seed", "protocol", "timing")  # what both must say alike, where the baseline says it
SOURCE_LIMIT_BYTES = 1_000_000  # of a candidate's text that is kept
_SIDES = (Side.BASELINE, Side.CANDIDATE)


@dataclass
class Runs:
    """What was run so far: every side's lines, warm-ups included, and the fault that ended it, if one did."""

    lines: dict[Side, list[Line]] = field(default_factory=lambda: {side: [] for side in _SIDES})
    fault: Fault | None = None
    seconds: dict[str, float] = field(default_factory=dict)


def compare_scripts(
    session: Session,
    candidate: str,
    baseline: str,
    n: int = 7,
    warmup: int = 2,
    args: Sequence[str] | None = None,
    cwd: str = "",
    timeout: float = 600,
) -> Comparison:
    """Run both scripts `warmup` + `n` times in turn and compare the times that they print.

    A script that fails is a verdict, not an error; the result is not saved. Raises ToolError where a script is not
    there, cannot be started, or a number makes no sense.
    """
    check_counts(n, warmup)
    folder = session.path(cwd) if cwd else session.root
    names = {Side.BASELINE: baseline, Side.CANDIDATE: candidate}
    paths = {side: session.file(name, cwd=cwd or None) for side, name in names.items()}
    python, environment = session.python(), session.environment
    whats = {side: scripts.script(python, path, args or (), cwd=folder, environment=environment, timeout_s=timeout)
             for side, path in paths.items()}
    sources = {side: _source(path, keep_text=side is Side.CANDIDATE) for side, path in paths.items()}
    with card_held(session) as waited_s:
        runs = run_in_turn(session, whats, warmup, n)
    runs.seconds["waited_for_gpu"] = waited_s
    for side, path in paths.items():
        if runs.fault is None and _source(path, keep_text=False).sha256 != sources[side].sha256:
            reason = f"{path.name} was edited while it was measured"
            runs.fault = Fault(VerdictKind.INVALID, "source_changed", reason, side)
    counted = {side: lines[warmup:] for side, lines in runs.lines.items()}
    return _comparison(runs, counted, whats, sources)


def run_in_turn(session: Session, whats: dict[Side, Script], warmup: int, n: int) -> Runs:
    """Both scripts in turn, which goes first changing every time; ends at the first fault."""
    runs, started, total = Runs(), time.monotonic(), 2 * (warmup + n)
    for done, (number, side) in enumerate(_order(warmup + n)):
        message = f"{side} {'warm-up' if number < warmup else 'run'} {number + 1 - (warmup if number >= warmup else 0)}"
        session.progress(message, done, total)
        try:
            line = scripts.run(session.job, whats[side], watch=keep_telling(session, message, done, total))
        except ScriptFault as error:
            runs.fault = Fault(VerdictKind.INVALID, f"{side}_{error.rule}", error.message, side)
        else:
            runs.fault = _fault(side, line, [each for lines in runs.lines.values() for each in lines])
            runs.lines[side].append(line)
        if runs.fault is not None:
            break
    runs.seconds["runs"] = time.monotonic() - started
    return runs


def _order(count: int) -> Iterator[tuple[int, Side]]:
    for number in range(count):
        for side in _SIDES if number % 2 == 0 else reversed(_SIDES):
            yield number, side


def _fault(side: Side, line: Line, before: Sequence[Line]) -> Fault | None:
    """What makes this run's line end the comparison: its own check, or something measured unlike the first run."""
    why = f": {str(line.values['why'])[:300]}" if "why" in line.values else ""
    if line.ok is False and side is Side.BASELINE:
        return Fault(VerdictKind.INVALID, "baseline_check_failed", f"the baseline says ok: false{why}", side)
    if line.ok is False:
        return Fault(VerdictKind.INCORRECT, "check_failed", f"the candidate says ok: false{why}", side)
    for name in SAME:
        if before and name in before[0].values and _said(line, name) != _said(before[0], name):
            told = f"{_said(before[0], name)} in the first run, {_said(line, name)} in the {side}'s"
            return Fault(VerdictKind.INVALID, f"{name}_differs", f"not the same {name} was measured: {told}", side)
    return None


def _said(line: Line, name: str) -> str:
    return str(line.values[name])[:100] if name in line.values else "nothing said"


def verdict_of(fault: Fault | None, counted: dict[Side, list[Line]]) -> Verdict:
    """The verdict on the runs that count; on a fault where there is one."""
    baseline_ms, candidate_ms = ([line.ms for line in counted[side]] for side in _SIDES)
    return decide_scripts(baseline_ms, candidate_ms, faults=[fault] if fault else [])


def _comparison(runs: Runs, counted: dict[Side, list[Line]], whats: dict[Side, Script],
                sources: dict[Side, Source]) -> Comparison:
    verdict = verdict_of(runs.fault, counted)
    said = next((lines[0].values for lines in runs.lines.values() if lines), {})
    protocol = said.get("protocol")
    return Comparison(
        id=new_id(),
        target=_target(said, whats[Side.BASELINE].name),
        verdict=verdict.kind,
        reason=verdict.reason,
        rule=verdict.rule,
        speedup=verdict.speedup,
        interval_99=verdict.interval,
        equivalent=verdict.equivalent,
        smallest_effect_pct=verdict.smallest_effect_pct,
        baseline=samples.measure([line.ms for line in counted[Side.BASELINE]]),
        candidate=samples.measure([line.ms for line in counted[Side.CANDIDATE]]),
        timestamp=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        protocol=protocol if isinstance(protocol, int) and not isinstance(protocol, bool) else PROTOCOL,
        device=_one_of(said.get("device"), ("cuda", "cpu")) or "unknown",
        assurance=SELF_REPORTED,
        self_reported=True,
        roofline_inputs=next((lines[0].numbers() for lines in runs.lines.values() if lines), {}),
        gpu=_word(said.get("gpu")),
        shapes=_shapes(said),
        dtype=_word(said.get("dtype")),
        sources={str(side): source for side, source in sources.items()},
        versions=Versions(hotkernel=__version__, torch=_word(said.get("torch"))),
        cmds={str(side): list(what.argv) for side, what in whats.items()},
        warnings=_warnings(runs),
        seconds=runs.seconds,
    )


def _source(path: Path, *, keep_text: bool) -> Source:
    content = path.read_bytes()
    text = content.decode("utf-8", "surrogateescape") if keep_text and len(content) <= SOURCE_LIMIT_BYTES else None
    return Source(path.name, hashlib.sha256(content).hexdigest(), text)


def _target(said: dict[str, Any], file_name: str) -> str:
    return _word(said.get("target")) or Path(file_name).stem.removesuffix("_baseline")


def _shapes(said: dict[str, Any]) -> dict[str, list[int]]:
    """The inputs' shapes, where the script gives them; its single `shape` is that of the first input, x."""
    given = said.get("shapes") if isinstance(said.get("shapes"), dict) else {"x": said.get("shape")}
    shapes = given.items() if isinstance(given, dict) else ()
    return {str(name)[:64]: shape for name, shape in shapes
            if isinstance(shape, list) and all(type(length) is int for length in shape)}


def _warnings(runs: Runs) -> tuple[str, ...]:
    every = [line for lines in runs.lines.values() for line in lines]
    says: tuple[tuple[Callable[[Line], bool], str], ...] = (
        (lambda line: line.ok is None, 'a script does not say "ok", so nothing says that its output is right'),
        (lambda line: line.after > 0, "a script prints more after its JSON line; that was ignored"),
        (lambda line: "protocol" not in line.values, "a script names no timing protocol"),
    )
    return ("the scripts time and check themselves: this is not verified",
            *(text for holds, text in says if any(map(holds, every))))


def _word(value: Any) -> str | None:
    return value[:200] if isinstance(value, str) and value else None


def _one_of(value: Any, words: tuple[str, ...]) -> str | None:
    return value if value in words else None
