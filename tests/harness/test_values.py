"""Half of a pair's values are enough where they say a plain thing; what a candidate answers, the baseline answers too."""

from __future__ import annotations

import math
import random
from types import SimpleNamespace

import pytest

from hotkernel.harness.batches import Stamped
from hotkernel.harness.crew import PairOfWorkers
from hotkernel.harness.phases import Phases
from hotkernel.harness.plan import Wanted, is_plain, make_plan
from hotkernel.harness.values import Drawing, Values
from hotkernel.schema.verdict import Batch, Mode, Side, Stage


def batches(ratios: list[float], *, baseline_us: float = 100.0, calls: tuple[int, int] = (2, 10), overhead_us: float = 40.0,
            void: str | None = None) -> list[Batch]:
    found = []
    for value, ratio in enumerate(ratios):
        sides = [(Side.BASELINE, baseline_us), (Side.CANDIDATE, baseline_us / ratio)]
        for side, us in sides[:: 1 if value % 2 else -1]:
            found += [Batch(side, Stage.LOOK, 0, value, n, overhead_us + n * us, 0.0, void=void) for n in calls[:: -1]]
    return found


@pytest.mark.parametrize("ratios", [[12.4, 12.6, 12.5, 12.7], [1.5, 1.52, 1.48, 1.51], [0.5, 0.51, 0.49, 0.5], [3.0, 3.1]])
def test_values_that_agree_on_a_large_ratio_are_enough_either_way_round(ratios):
    assert is_plain(batches(ratios))


@pytest.mark.parametrize("ratios", [
    [1.02, 1.02, 1.02, 1.02],  # a small gain takes them all
    [1.5, 1.5, 1.5, 0.7],  # one says the opposite
    [1.5, 2.5, 1.3, 1.9],  # they do not agree by how much
    [1.5],  # one is none
    [],
])
def test_small_or_disagreeing_ratios_are_not_enough(ratios):
    assert not is_plain(batches(ratios))


def test_void_values_do_not_count():
    assert not is_plain(batches([3.0, 3.0, 3.0, 3.0], void="late"))


def test_equal_sides_under_heavy_noise_are_hardly_ever_plain():
    chance = random.Random(4)
    plain = sum(is_plain(batches([chance.lognormvariate(0, 0.2) for _ in range(4)])) for _ in range(2_000))

    assert plain < 10


class Scripted:
    """An oracle and batches that only write down what is drawn and which side answers which entries of it."""

    def __init__(self, times_as_fast: float = 1.0) -> None:
        self.us = {Side.BASELINE: 100.0, Side.CANDIDATE: 100.0 / times_as_fast, Side.INCUMBENT: 100.0 / times_as_fast}
        self.drawings: list[dict[Side, set[int]]] = []
        self.sizes: list[int] = []
        self.kinds: list[str] = []
        self.counted: list[tuple[Side, int]] = []
        self.now = 0
        self.runs: list[tuple[Side, int]] = []

    def ask(self, op: str, *, size: int = 0, again: int | None = None, kind: str = "") -> dict[str, object]:
        assert op == "draw"
        if again is None:
            self.drawings.append({})
            self.sizes.append(size)
            self.kinds.append(kind)
        self.now = len(self.drawings) - 1 if again is None else again
        return {"number": self.now}

    def count(self) -> None:
        self.counted.append(self.runs[-1])

    def sweep(self) -> int:
        return 0

    def run(self, worker: SimpleNamespace, picks: list[int], _order: list[int], _expected_us: float) -> Stamped:
        assert max(picks) < self.sizes[self.now]
        self.drawings[self.now].setdefault(worker.side, set()).update(picks)
        self.runs.append((worker.side, len(picks)))
        return Stamped(50.0 + self.us[worker.side] * len(picks), None, 0.0)


def measured(sides, seed: int, rounds: list[str], *, is_shared: bool = False, times_as_fast: float = 1.0,
             stage: Stage = Stage.LOOK, mode: Mode = Mode.CPU):
    """A pair's batches as they were asked for: the plan, the oracle that wrote down, the batches."""
    plan, scripted, values = values_of(rounds, seed, is_shared=is_shared, times_as_fast=times_as_fast, mode=mode)
    return plan, scripted, values.of_pair(pair_of(stage, sides))


def pair_of(stage: Stage, sides) -> PairOfWorkers:
    return PairOfWorkers(stage, 1, {side: SimpleNamespace(side=side) for side in sides})


def values_of(rounds: list[str], seed: int, *, is_shared: bool = False, times_as_fast: float = 1.0, mode: Mode = Mode.CPU):
    """Values that a scripted oracle and its batches make: the plan, the oracle, the values."""
    scripted = Scripted(times_as_fast)
    plan = make_plan(mode, 700.0, 1, 1 << 30, Wanted(), is_shared=is_shared)
    drawn = Drawing(scripted.ask("draw", size=30)["number"], (30,))
    values = Values(SimpleNamespace(left_s=100.0), scripted, scripted, scripted, plan, 700.0, plan.slots, lambda: (None, None),
                    Phases(), rounds, {}, drawn, chance=random.Random(seed))
    return plan, scripted, values


@pytest.mark.parametrize(("is_shared", "mode", "drawings"), [
    (False, Mode.BATCHES, 1), (True, Mode.BATCHES, 2), (False, Mode.CPU, 2)])  # there one batch could tell the other's inputs
@pytest.mark.parametrize("sides", [[Side.BASELINE, Side.CANDIDATE], [Side.BASELINE, Side.CANDIDATE, Side.INCUMBENT]])
@pytest.mark.parametrize("seed", range(6))
def test_the_baseline_answers_every_input_that_a_candidate_is_timed_on(sides, is_shared, mode, drawings, seed):
    plan, scripted, batches = measured(sides, seed, ["zeros", "large"], is_shared=is_shared, mode=mode)

    timed = [drawing for drawing in scripted.drawings[1:] if Side.CANDIDATE in drawing]
    assert len(timed) == plan.values_per_pair * drawings + 2  # with two rounds
    assert all(drawing[Side.CANDIDATE] <= drawing[Side.BASELINE] for drawing in timed)
    met = sum(drawing.keys() >= {Side.CANDIDATE, Side.INCUMBENT} for drawing in timed)
    assert met == (2 if Side.INCUMBENT in sides else 0)  # in the rounds alone
    assert {side: sum(batch.side is side for batch in batches) for side in sides} == dict.fromkeys(
        sides, 2 * plan.values_per_pair)


@pytest.mark.parametrize("seed", range(4))
def test_the_side_that_begins_changes_with_every_value(seed):
    plan, _, batches = measured((Side.BASELINE, Side.CANDIDATE), seed, [])

    first = [next(batch.side for batch in batches if batch.value == value) for value in range(plan.values_per_pair)]
    assert first[::2] == [first[0]] * (plan.values_per_pair // 2)
    assert first[1::2] == [first[1]] * (plan.values_per_pair // 2)
    assert first[0] is not first[1]


@pytest.mark.parametrize(("times_as_fast", "sides", "stage", "values"), [
    (3.0, (Side.BASELINE, Side.CANDIDATE), Stage.LOOK, 2),
    (1 / 3.0, (Side.BASELINE, Side.CANDIDATE), Stage.LOOK, 2),
    (1.6, (Side.BASELINE, Side.CANDIDATE), Stage.LOOK, 4),
    (3.0, (Side.BASELINE, Side.CANDIDATE), Stage.CONFIRMATION, 4),  # what is said of a gain is the confirmation's
    (3.0, (Side.BASELINE, Side.CANDIDATE, Side.INCUMBENT), Stage.LOOK, 4),  # which may be as fast as the candidate
    (1.05, (Side.BASELINE, Side.CANDIDATE), Stage.LOOK, 8),
])
@pytest.mark.parametrize("seed", range(4))
def test_a_pair_takes_fewer_values_the_plainer_they_are(times_as_fast, sides, stage, values, seed):
    _, scripted, batches = measured(sides, seed, ["zeros", "large"], times_as_fast=times_as_fast, stage=stage)

    assert {batch.value for batch in batches} == set(range(values))
    firsts = [batches[4 * value if len(sides) == 2 else 6 * value].side for value in range(values)]
    assert firsts.count(firsts[0]) == values / 2  # as often the one first as the other
    assert scripted.kinds.count("zeros") == scripted.kinds.count("large") == 1  # however early a pair ends
    assert all(drawing[Side.CANDIDATE] <= drawing[Side.BASELINE] for drawing in scripted.drawings if Side.CANDIDATE in drawing)


def test_equal_sides_are_never_so_plain_that_two_values_are_enough():
    chance = random.Random(5)
    plain = sum(is_plain(batches([chance.lognormvariate(0, 0.2) for _ in range(2)]), math.log(2)) for _ in range(20_000))

    assert plain < 10


@pytest.mark.parametrize(("times_as_fast", "values"), [(1.0, 4), (1.6, 2), (3.0, 2)])
def test_a_baseline_alone_takes_half_as_many_values_as_the_pair_before(times_as_fast, values):
    sides = (Side.BASELINE, Side.CANDIDATE)
    _, _, measuring = values_of([], 1, times_as_fast=times_as_fast)
    measuring.of_pair(pair_of(Stage.LOOK, sides))
    alone = measuring.of_baseline_alone(pair_of(Stage.CONFIRMATION, sides))

    assert [(batch.side, batch.stage) for batch in alone] == [(Side.BASELINE, Stage.ALONE)] * 2 * values


def test_a_baseline_that_was_measured_alone_is_not_warmed_up_again():
    _, scripted, measuring = values_of([], 1, times_as_fast=3.0)
    pair = pair_of(Stage.CONFIRMATION, (Side.BASELINE, Side.CANDIDATE))
    pair.alone = measuring.of_baseline_alone(pair)
    scripted.runs.clear()
    timed = measuring.of_pair(pair)

    ran = {side: sum(each is side for each, _ in scripted.runs) for side in pair.workers}
    timed_of = {side: sum(batch.side is side for batch in timed) for side in pair.workers}
    assert ran[Side.CANDIDATE] > timed_of[Side.CANDIDATE]
    assert ran[Side.BASELINE] == timed_of[Side.BASELINE] + 2  # what it had not answered of the candidate's inputs
