"""How a trial measures another way, where the first one cannot be."""

from __future__ import annotations

import pytest

from hotkernel.harness.batches import CannotQueue, Unreadable
from hotkernel.harness.plan import FEW_CALLS, MAX_CALLS, Wanted, make_plan
from hotkernel.harness.trial import Trial
from hotkernel.schema.verdict import Mode


class Ended:
    end = end_all = lambda self: None


@pytest.fixture
def trial(monkeypatch):
    """One that has a plan for calls of 200 us, and makes the next plan with nothing else."""
    trial = Trial.__new__(Trial)
    trial.crew = trial.oracle = Ended()
    trial.mode, trial.copies, trial.most_calls, trial.changes = Mode.BATCHES, False, MAX_CALLS, []

    def open_again(us: float = 200.0) -> None:
        trial.plan = make_plan(trial.mode, us, 1 << 20, 1 << 36, Wanted(), most=trial.most_calls)

    monkeypatch.setattr(trial, "open_again", open_again, raising=False)
    open_again()
    return trial


def test_calls_that_fill_the_queue_together_are_fewer_in_a_batch_and_are_timed_with_their_launches_if_even_those_do(trial):
    trial.fall_back(CannotQueue(9))
    fewer = trial.plan
    trial.fall_back(CannotQueue(FEW_CALLS))

    assert (fewer.mode, fewer.n2) == (Mode.BATCHES, FEW_CALLS)
    assert (trial.plan.mode, trial.plan.n2 > FEW_CALLS) == (Mode.LATENCY, True)
    assert trial.plan.notes[0].startswith("9 calls launch more")
    assert "synchronises" in trial.plan.notes[1]


def test_a_side_that_synchronises_in_one_call_is_timed_with_its_launches_at_once(trial):
    why = trial.fall_back(CannotQueue(1))

    assert (trial.plan.mode, trial.plan.notes) == (Mode.LATENCY, (why,))


def test_short_calls_that_cannot_be_queued_are_not_told_from_a_batch_of_few(trial):
    trial.open_again(4.0)
    trial.fall_back(CannotQueue(160))

    assert trial.plan.mode is Mode.LATENCY


def test_each_change_of_the_way_is_still_said_after_the_next(trial):
    trial.fall_back(Unreadable("no handle"))
    trial.fall_back(CannotQueue(1))

    assert trial.copies
    assert ["no handle" in note for note in trial.plan.notes] == [True, False]
