"""Decides between two scripts that time themselves, run in turn, however the machine drifted meanwhile; runs nothing.

A round is one run of each, one after the other, and which goes first changes every round. What a machine does slowly is
the same for both runs of a round but for one step of its drift, and that step has the other sign where the other side
went first. So the estimate is the mean of two means: of the rounds in the one order, and of those in the other.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from hotkernel.judge import sequence, wording
from hotkernel.judge.sequence import Estimate, Finding
from hotkernel.judge.verdict import refusal
from hotkernel.schema.verdict import Fault, Pair, Stage, Verdict, VerdictKind

ORDERS = 2
LEAST_ROUNDS = ORDERS + 1  # the fewest that have a spread once each order has its mean
ALPHA = sequence.INTERVAL_ALPHA  # one-sided; so a verdict and its 99 % interval say the same


def decide_scripts(
    baseline_ms: Sequence[float], candidate_ms: Sequence[float], *, faults: Sequence[Fault] = ()
) -> Verdict:
    """The verdict on what two scripts printed, a round at a place: one look, with no confirmation behind it."""
    if refused := refusal(faults):
        return refused
    if not baseline_ms or not candidate_ms or min(*baseline_ms, *candidate_ms) <= 0:
        return Verdict(VerdictKind.INVALID, "a side printed no time above zero", rule="no_time")
    found = estimate(baseline_ms, candidate_ms)
    said = f"{wording.difference(found)} by the scripts' own clocks, {wording.count(len(found.pairs), 'round')}"
    finding = sequence.look(found, ALPHA)
    if finding in (Finding.FASTER, Finding.SLOWER):
        return Verdict(VerdictKind(finding.value), said, speedup=found.speedup, interval=found.interval)
    smallest_pct = found.smallest_effect_pct(ALPHA)
    why = f"fewer than {LEAST_ROUNDS} rounds have no spread" if smallest_pct is None else \
        f"{wording.percent(smallest_pct)} would have been seen"
    return Verdict(VerdictKind.INCONCLUSIVE, f"{said}: {why}", speedup=found.speedup, interval=found.interval,
                   equivalent=found.is_equivalent, smallest_effect_pct=smallest_pct)


def estimate(baseline_ms: Sequence[float], candidate_ms: Sequence[float]) -> Estimate:
    """What rounds say together, in logs of baseline's time over candidate's; the error is null for too few of them."""
    logs = [math.log(before / after) for before, after in zip(baseline_ms, candidate_ms, strict=True)]
    rounds = tuple(Pair(Stage.LOOK, number, log, None, 1) for number, log in enumerate(logs))
    orders = [group for group in (logs[0::ORDERS], logs[1::ORDERS]) if group]
    means = [statistics.fmean(group) for group in orders]
    degrees = len(logs) - ORDERS
    if degrees < 1:
        return Estimate(rounds, statistics.fmean(means), None)
    left = sum((log - mean) ** 2 for group, mean in zip(orders, means, strict=True) for log in group)
    variance = max(left / degrees, sequence.SMALLEST_SD**2)
    error = math.sqrt(variance * sum(1 / len(group) for group in orders)) / ORDERS
    return Estimate(rounds, statistics.fmean(means), error, means=ORDERS)
