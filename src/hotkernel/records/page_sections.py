"""Says what the report's page says, record by record, in words and rounded numbers; draws and writes nothing."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Iterable, Sequence
from pathlib import Path

from hotkernel.records import advice, entries, figures, sources
from hotkernel.records.markdown import plain
from hotkernel.records.store import Shelf
from hotkernel.schema.comparison import CaseResult, Comparison
from hotkernel.schema.explanation import Difference
from hotkernel.schema.page import Diff, DiffLine, OldRow, Pairs, Row, Section, Why
from hotkernel.schema.record import Advice, Logged, Record
from hotkernel.schema.report import Attempt
from hotkernel.schema.roofline import Bound
from hotkernel.schema.verdict import Check, VerdictKind

CONTEXT_LINES = 3
DIFF_LINES = 3000
LINE_LIMIT = 2000  # characters of a source's line
MEANING = {
    VerdictKind.FASTER: "right answers, and faster: confirmed on new processes and inputs",
    VerdictKind.SLOWER: "right answers, and slower than the baseline",
    VerdictKind.INCONCLUSIVE: "right answers, and no difference in time was shown",
    VerdictKind.INCORRECT: "wrong answers, so it has no time",
    VerdictKind.INVALID: "not a fair comparison, so it says nothing",
}
SELF_REPORTED = "by the scripts' own word, not verified"


def sections(shelf: Shelf, base: Path, chosen: Sequence[Logged]) -> tuple[Section, ...]:
    """The chosen records by target and card, each numbered as it came among all of its kind."""
    def place(each: Logged) -> tuple[str, str, bool]:
        return each.record.target, _card(each.record.comparison), each.record.is_verified

    groups: dict[tuple[str, str, bool], list[Logged]] = {}
    for each in shelf.records:
        groups.setdefault(place(each), []).append(each)
    logs = {each.log for each in chosen}
    found: list[Section] = []
    for place_of, group in sorted(groups.items()):
        numbered = [(number, each) for number, each in enumerate(group, 1) if each.log in logs]
        if numbered:
            found.append(_section(shelf, base, f"t{len(found) + 1}", place_of, group, numbered))
    return tuple(found)


def superseded(shelf: Shelf) -> tuple[OldRow, ...]:
    """What counts no longer."""
    told = map(entries.superseded, shelf.superseded)
    return tuple(OldRow(each.target, each.reason, each.verdict or figures.UNKNOWN, each.note, each.timestamp[:10],
                        plain(each.log, 200)) for each in told)


def _section(shelf: Shelf, base: Path, key: str, place: tuple[str, str, bool], group: Sequence[Logged],
             numbered: Sequence[tuple[int, Logged]]) -> Section:
    target, card, is_verified = place
    advised = {each.log: entries.advice_of(shelf, each) for _, each in numbered}
    rows = tuple(_row(each, number, advised[each.log]) for number, each in numbered)
    winner = _winner(group) if len(numbered) == len(group) else numbered[0][1]
    best = next((row for row in rows if winner and row.log == plain(winner.log, 300)), None)
    shown = winner or group[-1]
    return Section(
        key=key, target=target, card=plain(card, 80), is_verified=is_verified,
        headline=_headline(shown.record.comparison if winner else None),
        counts=_counts([each.record.comparison.verdict for _, each in numbered]),
        best=best, rows=rows, tries=tuple(_attempt(each, number, advised[each.log]) for number, each in numbered),
        diff=_diff(base, winner.record, best.number if best else 1) if winner else None,
        why=_why(winner.why) if winner and winner.why else None,
        machine=tuple(_machine(shown.record.comparison)))


def _winner(group: Sequence[Logged]) -> Logged | None:
    """What is in force: as `advice` has it for what was verified, else the fastest by its own word."""
    record = group[-1].record
    best = advice.run_best([each.record for each in group], record.target, advice.card_of(record.comparison))
    if best is not None:
        return next(each for each in group if each.record is best)
    faster = [each for each in group if each.record.comparison.verdict is VerdictKind.FASTER]
    return max(faster, key=lambda each: each.record.comparison.speedup or 0.0, default=None)


def _card(found: Comparison) -> str:
    if found.device == "cpu":
        return "CPU"
    return found.gpu or found.device


# Sentences ------------------------------------------------------------------------------------------------------------


def _headline(found: Comparison | None) -> str:
    """What was reached, in a sentence or two."""
    if found is None:
        return "No attempt has beaten the baseline yet."
    if found.verdict is not VerdictKind.FASTER or found.speedup is None:
        return f"{found.verdict.value.capitalize()}: {MEANING[found.verdict]}."
    said = figures.times(found.speedup)
    if found.interval_99 and len(found.interval_99) == 2:
        said += f" ({figures.between(*found.interval_99)}, with 99 % confidence)"
    said = f"{said[0].upper()}{said[1:]}"
    if found.baseline and found.candidate:
        took, takes = figures.duration(found.baseline.mean_ms), figures.duration(found.candidate.mean_ms)
        said += f": one call takes {takes}, where the baseline takes {took}"
    if found.ceiling_share_pct is not None:
        roof = "rate of matrix products" if found.ceiling_bound is Bound.COMPUTE else "memory bandwidth"
        said += f". That is {figures.percent(found.ceiling_share_pct)} of the {roof} that this card was measured to reach"
    return said + (". " + SELF_REPORTED.capitalize() if found.self_reported else "") + "."


def _counts(verdicts: Sequence[VerdictKind]) -> str:
    """`5 attempts: 2 faster, 2 inconclusive, 1 incorrect`."""
    each = [f"{count} {kind.value}" for kind in VerdictKind if (count := verdicts.count(kind))]
    return f"{len(verdicts)} attempt{'' if len(verdicts) == 1 else 's'}: {', '.join(each)}"


# Rows -----------------------------------------------------------------------------------------------------------------


def _row(logged: Logged, number: int, advised: Advice) -> Row:
    kept, found = logged.record, logged.record.comparison
    is_shown = found.verdict in (VerdictKind.FASTER, VerdictKind.SLOWER, VerdictKind.INCONCLUSIVE)
    return Row(
        number=number, when=plain(kept.timestamp[:16].replace("T", " "), 16), verdict=found.verdict.value,
        meaning=MEANING[found.verdict] if kept.is_verified else SELF_REPORTED,
        speedup=figures.short_speedup(found.speedup, found.interval_99) if is_shown else figures.UNKNOWN,
        baseline=_mean(found, "baseline"), candidate=_mean(found, "candidate"),
        share=figures.share(found.ceiling_share_pct, found.ceiling_bound),
        note=plain(kept.note, 300) or "(no note)", who=plain(kept.who, 80) or figures.UNKNOWN,
        decision=advised.decision.value, reason=plain(found.reason, 600),
        confirmed=f"{logged.confirmed} of {len(logged.confirmations)}" if logged.confirmations else "",
        log=plain(logged.log, 300), details=tuple(_details(logged, advised)))


def _mean(found: Comparison, side: str) -> str:
    measured = found.baseline if side == "baseline" else found.candidate
    return figures.duration(measured.mean_ms) if measured else figures.UNKNOWN


def _details(logged: Logged, advised: Advice) -> Iterable[tuple[str, str]]:
    """Everything else that a reader may ask of an attempt."""
    kept, found = logged.record, logged.record.comparison
    yield "Why this verdict", plain(found.reason, 600) + (f" (rule: {plain(found.rule, 60)})" if found.rule else "")
    yield "What was advised", plain(entries.sentence(advised), 400)
    for side, measured in (("Baseline", found.baseline), ("Candidate", found.candidate), ("Best so far", found.incumbent)):
        if measured:
            spread = f" ± {figures.duration(measured.std_ms)}" if measured.std_ms is not None else ""
            mean = figures.duration(measured.mean_ms)
            yield f"{side}, one call", f"{mean}{spread} (mean and standard deviation of {measured.n})"
    if found.speedup_over_incumbent is not None:
        yield "Against the best so far", figures.times(found.speedup_over_incumbent)
    for case in found.cases:
        yield f"Case {plain(case.case, 60)}", _case(case)
    for name, took_ms in (found.baselines_ms or {}).items():
        chosen = ", the one to beat" if name == found.baseline_name else ""
        yield f"Baseline {plain(name, 60)}", f"about {figures.duration(took_ms)} a call{chosen}"
    for side, setup_ms in (found.setup_ms or {}).items():
        yield f"Set-up of the {plain(side, 20)}", f"{figures.duration(setup_ms)} once a process, in no other time"
    for check in found.checks:
        yield f"Outputs of the {check.side.value}", _checked(check)
    for number, each in enumerate(logged.confirmations, 1):
        yield f"Independent repeat {number}", plain(f"{each.verdict.value}: {each.reason}", 400)
    yield "Who", plain(kept.who, 80) or figures.UNKNOWN
    for warning in found.warnings:
        yield "Warning", plain(warning, 400)
    yield "Tries so far", str(found.tries) if found.tries is not None else figures.UNKNOWN
    yield "Log", plain(logged.log, 300)
    yield "Id", plain(found.id, 64)


def _case(case: CaseResult) -> str:
    """One case of a target: its verdict, both times, its inputs."""
    times = [figures.duration(ms) if ms is not None else figures.UNKNOWN for ms in (case.baseline_ms, case.candidate_ms)]
    shapes = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in case.shapes.items())
    return plain(f"{case.verdict.value}, {figures.short_speedup(case.speedup, case.interval_99)}; the baseline takes {times[0]}, "
                 f"the candidate {times[1]}; {shapes} {(case.dtype or '').removeprefix('torch.')}", 400)


def _checked(check: Check) -> str:
    said = f"{check.outputs:,} checked, {'all right' if check.ok else 'wrong'}"
    if check.rounds:
        said += f", and {sum(check.rounds.values())} on other inputs ({', '.join(check.rounds)})"
    return said + (f": {plain(check.detail, 300)}" if check.detail else "")


def _attempt(logged: Logged, number: int, advised: Advice) -> Attempt:
    found = logged.record.comparison
    moved = found.roofline_inputs.get("min_bytes")
    gbps = moved / found.candidate.mean_ms / 1e6 if moved and found.candidate and found.candidate.mean_ms > 0 else None
    return Attempt(number, found.verdict, found.speedup, found.interval_99, advised.keep, gbps)


# Sources and profiles -------------------------------------------------------------------------------------------------


def _diff(base: Path, record: Record, number: int) -> Diff:
    """The winner's source against the baseline's."""
    old, new = sources.baseline_text(base, record), sources.candidate_text(record)
    title = f"What was written: attempt #{number} against the baseline"
    if old is None or new is None:
        whose = "The baseline's" if old is None else "The attempt's"
        lines = tuple(DiffLine("same", None, at, sources.visible(line[:LINE_LIMIT]))
                      for at, line in enumerate((new or "").splitlines()[:DIFF_LINES], 1))
        library = sources.library_function(base, record)
        why = f"The baseline is a library's function ({plain(library, 120)})" if library and old is None \
            else f"{whose} source is not at hand as it was measured"
        return Diff(title, 0, 0, lines, f"{why}, so this is the attempt's alone." if lines else f"{why}.")
    lines = tuple(itertools.islice(_lines(old.splitlines(), new.splitlines()), DIFF_LINES))
    counted = [line.kind for line in lines]
    note = "" if {"added", "removed"} & set(counted) else "The two are the same, line by line."
    return Diff(title, counted.count("added"), counted.count("removed"), lines, note)


def _lines(old: Sequence[str], new: Sequence[str]) -> Iterable[DiffLine]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    for at, group in enumerate(matcher.get_grouped_opcodes(CONTEXT_LINES)):
        if at:
            yield DiffLine("gap", None, None, "")
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                for one, other in zip(range(old_from, old_to), range(new_from, new_to), strict=True):
                    yield DiffLine("same", one + 1, other + 1, _shown(old[one]))
                continue
            yield from (DiffLine("removed", one + 1, None, _shown(old[one])) for one in range(old_from, old_to))
            yield from (DiffLine("added", None, other + 1, _shown(new[other])) for other in range(new_from, new_to))


def _shown(line: str) -> str:
    return sources.visible(line if len(line) <= LINE_LIMIT else line[: LINE_LIMIT - 1] + "…")


def _why(found: Difference) -> Why:
    rows = [(each.figure.replace("_", " "), each, "") for each in found.changes]
    rows += [(f"waiting: {each.figure.replace('_', ' ')}", each, " %") for each in found.stalls]
    return Why(plain(found.why, 600), tuple(
        (plain(name, 60), figures.significant(each.before) + (unit if each.before is not None else ""),
         figures.significant(each.after) + (unit if each.after is not None else ""),
         f"{each.change_pct:+.0f} %" if each.change_pct is not None else figures.UNKNOWN) for name, each, unit in rows))


# The machine ----------------------------------------------------------------------------------------------------------


def _machine(found: Comparison) -> Iterable[tuple[str, str]]:
    """Where it was measured and with what; what is unknown is said to be."""
    versions = found.versions
    states = [each for each in (found.gpu_before, found.gpu_after) if each is not None]
    facts: Pairs = (
        ("Card", _card(found)),
        ("Driver", found.driver or ""),
        ("Power limit", figures.watts(found.power_limit_w)),
        ("SM clock before and after", _both([each.sm_clock_mhz for each in states], "MHz")),
        ("Temperature before and after", _both([each.temperature_c for each in states], "°C")),
        ("Inputs", ", ".join(f"{name}: {'×'.join(map(str, shape))}" for name, shape in found.shapes.items())),
        ("Data type", (found.dtype or "").removeprefix("torch.")),
        ("Bytes that one call must move", figures.significant(found.roofline_inputs.get("min_bytes"))),
        ("hotkernel", versions.hotkernel if versions else ""),
        ("PyTorch", (versions.torch if versions else "") or ""),
        ("Triton", (versions.triton if versions else "") or ""),
        ("CUDA", (versions.cuda if versions else "") or ""),
        ("Python", (versions.python if versions else "") or ""),
        ("How well the judge was kept apart (assurance)", found.assurance),
        ("Timing protocol", str(found.protocol)),
        ("Measured at", found.timestamp),
    )
    for name, said in facts:
        yield name, plain(said, 200) or figures.UNKNOWN


def _both(values: Sequence[float | None], unit: str) -> str:
    if not any(values):
        return ""
    return " and ".join(figures.UNKNOWN if each is None else f"{each:g} {unit}" for each in values)
