"""How often the verdict errs, simulated: false `faster` on equal sides, and true gains missed. Seeds are fixed.

`python tests/judge/test_monte_carlo.py 20000` prints the table of docs/verdict.md, with so many runs a row.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from handmade import PLAN

from hotkernel.judge.samples import pairs_of
from hotkernel.judge.verdict import next_step
from hotkernel.schema.verdict import Pair, Side, Stage, Value, VerdictKind

RUNS = 400  # at the level of pairs; a tenth of it at the level of values
FALSE_FASTER = 0.01
POWER = 0.95
Generator = np.random.Generator
Processes = Callable[[Generator], float]  # the log of one process's time, against the side's own
Measure = Callable[[Stage, int], Pair]  # a pair of processes, started and measured


# Noise between processes: what a pair of them adds, however long it is measured -------------------------------------


def normal(spread: float) -> Processes:
    return lambda rng: rng.normal(0, spread)


def heavy_tailed(spread: float) -> Processes:
    """Student's t of three degrees of freedom, scaled to the same standard deviation."""
    return lambda rng: spread * rng.standard_t(3) / np.sqrt(3)


def bimodal(gap: float, share: float) -> Processes:
    """A process lands in a slow mode once and for all (where its memory came to lie, say)."""
    return lambda rng: rng.normal(0, 0.0005) + (gap if rng.random() < share else 0.0)


def stalling(spread: float) -> Processes:
    """One process in twenty is a tenth slower: somebody else was there."""
    return lambda rng: rng.normal(0, spread) + (0.1 if rng.random() < 0.05 else 0.0)


PROCESSES: dict[str, Processes] = {
    "processes normal, 0.1 %": normal(0.001),
    "processes normal, 0.3 %": normal(0.003),
    "processes normal, 1 %": normal(0.01),
    "processes with heavy tails, 0.3 %": heavy_tailed(0.003),
    "processes with heavy tails, 1 %": heavy_tailed(0.01),
    "processes in two modes 1 % apart, half and half": bimodal(0.01, 0.5),
    "processes in two modes 0.5 % apart, one in five": bimodal(0.005, 0.2),
    "one process in twenty slower by a tenth": stalling(0.002),
}


def pairs_from(processes: Processes, gain: float, rng: Generator) -> Iterator[float]:
    while True:
        yield np.log1p(gain) + processes(rng) - processes(rng)


def drifting_pairs(gain: float, rng: Generator) -> Iterator[float]:
    """The card warms up, and the sides do not share it wholly: each pair is off like the one before it."""
    offset = rng.normal(0, 0.003)
    while True:
        offset = 0.5 * offset + rng.normal(0, 0.0026)
        yield np.log1p(gain) + offset + rng.normal(0, 0.002)


# Noise within a pair: single values, one after the other, on one card -----------------------------------------------


def values_from(gain: float, rng: Generator, *, process: Processes, drift_per_s: float = 0.0, wander: float = 0.0,
                outliers: float = 0.0) -> Iterator[Callable[[Stage, int], list[Value]]]:
    """Pair after pair of 8 values a side in ABBA order, some 20 ms each; the clock drifts and wanders under both."""
    at_s, clock = 0.0, 0.0
    while True:
        offset = {Side.BASELINE: process(rng), Side.CANDIDATE: process(rng) - np.log1p(gain)}
        readings: list[tuple[Side, int, float]] = []
        first = rng.integers(2)
        for number in range(PLAN.values_per_pair):
            for side in (Side.BASELINE, Side.CANDIDATE) if (number + first) % 2 else (Side.CANDIDATE, Side.BASELINE):
                at_s += 0.02
                clock = 0.95 * clock + wander * rng.normal()
                noise = 0.005 * rng.normal() + (rng.exponential(0.1) if rng.random() < outliers else 0.0)
                readings.append((side, number, 36.0 * np.exp(offset[side] + clock + drift_per_s * at_s + noise)))
        at_s += 0.6  # new workers
        yield lambda stage, pair, readings=readings: [Value(side, stage, pair, n, us) for side, n, us in readings]


VALUES: dict[str, dict[str, object]] = {
    "steady, 0.2 %": {"process": normal(0.002)},
    "drift of 4 % a minute": {"process": normal(0.002), "drift_per_s": 0.04 / 60},
    "clock wander of 1 %": {"process": normal(0.002), "wander": 0.003},
    "one value in twenty wild": {"process": normal(0.002), "outliers": 0.05},
    "all of it, heavy tails": {
        "process": heavy_tailed(0.003), "drift_per_s": 0.04 / 60, "wander": 0.003, "outliers": 0.05,
    },
}


# A verify, and somebody who asks again ------------------------------------------------------------------------------


def verify(make: Measure, earlier: tuple[Pair, ...] = ()) -> tuple[VerdictKind, tuple[Pair, ...]]:
    """The running referee: measure what is asked for until there is a verdict."""
    pairs: list[Pair] = []
    while (step := next_step(PLAN, pairs, earlier=earlier)).verdict is None:
        have = sum(pair.stage is step.stage for pair in pairs)
        pairs += [make(step.stage, len(pairs) + number) for number in range(step.pairs - have)]
    return step.verdict.kind, tuple(pairs)


def from_logs(logs: Iterator[float]) -> Measure:
    return lambda stage, number: Pair(stage, number, float(next(logs)), 0.0005, PLAN.values_per_pair)


def from_values(source: Iterator[Callable[[Stage, int], list[Value]]]) -> Measure:
    return lambda stage, number: pairs_of(PLAN, next(source)(stage, number))[0]


def share_of_faster(make_source: Callable[[Generator], Measure], runs: int, asks: int = 1) -> float:
    """The share of runs in which somebody who asks `asks` times is told `faster` at least once."""
    rng = np.random.default_rng(20261130)
    told = 0
    for _ in range(runs):
        source, earlier = make_source(rng), ()
        for _ in range(asks):
            kind, pairs = verify(source, earlier)
            if kind is VerdictKind.FASTER:
                told += 1
                break
            earlier = (*earlier, *pairs)
    return told / runs


def pair_noise(name: str, gain: float = 0.0) -> Callable[[Generator], Measure]:
    return lambda rng: from_logs(pairs_from(PROCESSES[name], gain, rng))


def value_noise(name: str, gain: float = 0.0) -> Callable[[Generator], Measure]:
    return lambda rng: from_values(values_from(gain, rng, **VALUES[name]))


# False `faster` -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROCESSES)
def test_equal_sides_are_hardly_ever_faster_whatever_their_processes_do(name):
    assert share_of_faster(pair_noise(name), RUNS) <= FALSE_FASTER


def test_pairs_that_follow_one_another_are_hardly_ever_faster():
    assert share_of_faster(lambda rng: from_logs(drifting_pairs(0.0, rng)), RUNS) <= FALSE_FASTER


@pytest.mark.parametrize("name", VALUES)
def test_equal_sides_are_hardly_ever_faster_whatever_the_clock_does(name):
    assert share_of_faster(value_noise(name), RUNS // 10) <= FALSE_FASTER


def test_asking_ten_times_is_worth_no_more_than_asking_once():
    for name in ("processes normal, 0.3 %", "processes with heavy tails, 1 %"):
        assert share_of_faster(pair_noise(name), RUNS // 5, asks=10) <= FALSE_FASTER


# True gains ---------------------------------------------------------------------------------------------------------

def two_percent_found(processes: Callable[[float], Processes], pair_spread: float, runs: int) -> float:
    """Two processes make a pair, so each spreads by less than the pair does."""
    one = processes(pair_spread / np.sqrt(2))
    return share_of_faster(lambda rng: from_logs(pairs_from(one, 0.02, rng)), runs)


@pytest.mark.parametrize("pair_spread", [0.001, 0.003, 0.005, 0.01])
def test_two_percent_are_found_while_pairs_spread_by_one_percent_or_less(pair_spread):
    assert two_percent_found(normal, pair_spread, RUNS) >= POWER


@pytest.mark.parametrize("pair_spread", [0.003, 0.007])
def test_two_percent_are_found_under_heavy_tails_that_spread_by_seven_tenths(pair_spread):
    assert two_percent_found(heavy_tailed, pair_spread, RUNS) >= POWER


@pytest.mark.parametrize("name", VALUES)
def test_two_percent_are_found_under_drift_wander_and_wild_values(name):
    assert share_of_faster(value_noise(name, 0.02), RUNS // 10) >= POWER


def table(runs: int) -> Iterator[tuple[str, float | None, float | None]]:
    """Noise, false `faster` on equal sides, 2 % found."""
    for name in PROCESSES:
        yield name, share_of_faster(pair_noise(name), runs), share_of_faster(pair_noise(name, 0.02), runs)
    drifting = [share_of_faster(lambda rng, g=g: from_logs(drifting_pairs(g, rng)), runs) for g in (0.0, 0.02)]
    yield "pairs that resemble the one before", drifting[0], drifting[1]
    for spread in (0.003, 0.007, 0.01):
        for word, processes in (("normal", normal), ("heavy tails", heavy_tailed)):
            found = two_percent_found(processes, spread, runs)
            yield f"pairs that spread by {100 * spread:g} %, {word}", None, found
    for name in VALUES:
        few = runs // 10
        yield f"values: {name}", share_of_faster(value_noise(name), few), share_of_faster(value_noise(name, 0.02), few)
    again = pair_noise("processes normal, 0.3 %")
    yield "asking ten times, processes normal, 0.3 %", share_of_faster(again, runs // 5, asks=10), None


if __name__ == "__main__":
    for noise, *shares in table(int(sys.argv[1])):
        cells = ["–" if share is None else f"{100 * share:.2f} %" for share in shares]
        print(f"| {noise} | {cells[0]} | {cells[1]} |", flush=True)
