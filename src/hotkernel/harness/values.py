"""Takes the values of a pair of workers: draws secrets, warms up, runs both batches of each value; concludes nothing."""

from __future__ import annotations

import contextlib
import itertools
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from hotkernel.errors import ToolError
from hotkernel.harness.batches import Batches, Stamped
from hotkernel.harness.card_batches import CardBatches
from hotkernel.harness.crew import PairOfWorkers, Setting
from hotkernel.harness.links import OracleLink, SideFault, WorkerLink
from hotkernel.harness.phases import Phases
from hotkernel.harness.plan import PLAINER, VALUES_PER_PAIR, draw_calls, is_far_slower, is_plain
from hotkernel.harness.zygote import Fork
from hotkernel.schema.verdict import Batch, Fault, Mode, Plan, Side, Stage, VerdictKind

MOST = 2 / 3  # of the time since the first batch: a side that took more of it, twice what all else took, is why it ran out
HANGS_S = 2.0  # beyond what a batch may take: a side that is still out when the verify's time ends, hangs
CHAINS = 4  # of each length and side in a confirmation's pair
ROUNDS_A_PAIR = 2  # on other inputs than the timed ones: the first three pairs see all kinds
REPEATS = {Mode.BATCHES: 3, Mode.LATENCY: 3, Mode.HOST: 6, Mode.CPU: 6}  # of a void value; cores are shared more often
WARM_S = 1.5  # at most; less where a pair takes fewer values
WARM_AGREE = {Mode.BATCHES: 0.005, Mode.LATENCY: 0.02, Mode.HOST: 0.03, Mode.CPU: 0.03}

Run = Callable[[WorkerLink, list[int], list[int], float], Stamped]  # a worker, entries, slots, what it may take in us
Moment = Callable[[], tuple[int | None, int | None]]  # SM clock in MHz and the mask of throttle reasons, now


@dataclass(frozen=True)
class Drawing:
    """Secrets that the oracle drew: their number with it, the calls of each batch on them, and a round's kind."""

    number: int
    calls: tuple[int, ...]
    kind: str = ""


@dataclass
class Values:
    """Measures pairs by one plan, over one oracle's slots."""

    setting: Setting
    fork: Fork
    oracle: OracleLink
    batches: Batches
    plan: Plan
    baseline_us: float
    slots: int
    moment: Moment
    phases: Phases
    rounds: list[str]  # kinds of other inputs on which outputs are yet to be checked, untimed
    limited: dict[str, str]  # kinds that the baseline itself gets wrong, and how
    drawn: Drawing  # what the pool holds
    unanswered: list[list[Drawing]] = field(default_factory=list)  # what a candidate had in a turn, and no baseline since
    chance: random.Random = field(default_factory=random.SystemRandom)
    taken: int = VALUES_PER_PAIR  # by the last pair
    began: float | None = None  # of time.monotonic: the first batch
    spent_s: dict[Side, float] = field(default_factory=dict)  # in each side's own batches

    def of_pair(self, pair: PairOfWorkers) -> list[Batch]:
        """Warm the pair up, then all its values; raises SideFault, CannotQueue or Unreadable."""
        with self.phases.of("warm-up"):
            self._warm(pair, [side for side in pair.workers if side is not Side.BASELINE or not pair.alone])
        order = [side for side in (Side.INCUMBENT, Side.CANDIDATE, Side.BASELINE) if side in pair.workers]
        if self.chance.random() < 0.5:
            order.reverse()
        round_at = self.chance.randrange(self.plan.values_per_pair // 2 or 1)  # no side knows which batches are not timed
        with self.phases.of("values"):
            batches = self._repeated(self.plan.values_per_pair, lambda value: self._value(
                pair, value, order[:: 1 - value % 2 * 2], is_after_rounds=value == round_at),
                lambda value, batches: self._is_enough(pair, value, batches))
            self._answer_rest(pair)
            self.taken = 1 + max(batch.value for batch in batches)
            if self.taken <= round_at:  # the pair ended before them
                self._rounds(pair)
        return batches

    def chains_of(self, pair: PairOfWorkers) -> list[Batch]:
        """Chains of the candidate's calls and of the baseline's, on the same inputs."""
        with self.phases.of("chains"):
            return self._repeated(CHAINS, lambda value: [
                batch for calls in self.chance.sample(self.plan.links, len(self.plan.links))
                for batch in self._chains(pair, value, calls)])

    def _chains(self, pair: PairOfWorkers, value: int, calls: int) -> Iterator[Batch]:
        """One chain of each side; the baseline, which is trusted, comes second, as its precision on every input must be known."""
        assert isinstance(self.batches, CardBatches)
        self._draw((calls,))
        picks = self.chance.sample(range(calls), calls)
        for side in (Side.CANDIDATE, Side.BASELINE):
            stamped = self.batch(pair.workers[side], picks, self.batches.chain)
            if stamped.void is None:
                self.oracle.count()
            yield Batch(side, pair.stage, pair.number, value, calls, stamped.span_us, stamped.at_s, void=stamped.void)

    def of_baseline_alone(self, pair: PairOfWorkers) -> list[Batch]:
        """Half a pair's values of the baseline, while no other side has begun: what another's presence does to it shows."""
        with self.phases.of("alone"):
            self._warm(pair, [Side.BASELINE])
            alone = replace(pair, stage=Stage.ALONE)
            half = max(2, min(self.taken, self.plan.values_per_pair) // 2)
            return self._repeated(half, lambda value: self._turn(alone, Side.BASELINE, value))

    def _is_enough(self, pair: PairOfWorkers, value: int, batches: Sequence[Batch]) -> bool:
        """Whether a pair needs no more than the values before this one: one that says far slower, two or half that are plain."""
        if pair.number == 0 and is_far_slower(batches):
            return True
        if value == 2 and pair.stage is Stage.LOOK and Side.INCUMBENT not in pair.workers:
            return is_plain(batches, PLAINER)
        return value == self.plan.values_per_pair // 2 and is_plain(batches)

    def _repeated(self, values: int, take: Callable[[int], list[Batch]],
                  is_enough: Callable[[int, Sequence[Batch]], bool] = lambda _value, _batches: False) -> list[Batch]:
        """So many values, each repeated a few times where it is void; fewer where those so far are enough."""
        batches: list[Batch] = []
        for value in range(values):
            if value and is_enough(value, batches):
                break
            for _ in range(REPEATS[self.plan.mode]):
                self._check_time()
                taken = take(value)
                batches += taken
                if all(batch.void is None for batch in taken):
                    break
        return batches

    def _value(self, pair: PairOfWorkers, value: int, order: Sequence[Side], *, is_after_rounds: bool) -> list[Batch]:
        """One value of each side; ahead of one of a pair's, the pair's rounds of correctness."""
        if is_after_rounds:
            self._rounds(pair)
        batches = [batch for side in order for batch in self._turn(pair, side, value)]
        if self.fork.sweep():
            raise SideFault(Fault(VerdictKind.INVALID, "escaped_process", "a side started a process that left its tree, "
                                  "where it would run beside the other side's work; it was ended"))
        return batches

    def _turn(self, pair: PairOfWorkers, side: Side, value: int) -> list[Batch]:
        """One side's two batches of a value, on inputs that no other side has seen.

        The baseline, which is trusted, takes what a candidate had: of each input that a candidate is timed on the baseline's
        precision is known, whichever of the two began.
        """
        batches = []
        turn: list[Drawing] = []
        for drawing in self._answering() if side is Side.BASELINE else self._drawing(turn):
            for picks in self._picks(drawing):
                stamped = self.batch(pair.workers[side], picks)
                if stamped.void is None:
                    self.oracle.count()
                with self.phases.of("driver"):
                    clock, mask = self.moment()
                batches.append(Batch(side, pair.stage, pair.number, value, len(picks), stamped.span_us, stamped.at_s,
                                     stamped.check_us, clock, mask, stamped.fill_us, stamped.void, stamped.ahead_us))
        if side is Side.CANDIDATE:
            self.unanswered.append(turn)
        return batches

    def _drawing(self, turn: list[Drawing]) -> Iterator[Drawing]:
        """New secrets for a turn, one drawing for both batches, which are noted in it, or one for each.

        Where the calls of a batch share inputs, each batch has them drawn anew: what a side worked out of them once serves no
        other batch, and the short one, of one call, shows it. On the CPU random numbers are a Mersenne Twister's, of 32 bits of
        seed: what a side saw in one batch would tell the inputs of the other, and between the two it has time that no clock sees.
        """
        calls = draw_calls(self.plan, self.chance)
        is_apart = self.plan.is_shared or self.plan.mode is Mode.CPU
        for each in [(n,) for n in self.chance.sample(calls, 2)] if is_apart else [calls]:
            self._draw(each)
            turn.append(self.drawn)
            yield self.drawn

    def _answering(self) -> Iterator[Drawing]:
        """What the baseline answers next: the candidate's latest turn that it has not answered; else what the pool holds."""
        for drawing in reversed(self.unanswered.pop()) if self.unanswered else self._known_turn():
            if drawing.number != self.drawn.number:
                with self.phases.of("draw"):
                    self.oracle.ask("draw", again=drawing.number)
                self.drawn = drawing
            yield drawing

    def _known_turn(self) -> list[Drawing]:
        """Both batches of a value on what the pool holds, if that is no round's; entries may repeat."""
        calls = draw_calls(self.plan, self.chance)
        if self.drawn.kind:
            self._draw(calls)
        return [replace(self.drawn, calls=calls)]

    def _answer_rest(self, pair: PairOfWorkers) -> None:
        """Let the baseline answer, untimed, what it has not had of a candidate's inputs before the pair ends."""
        while self.unanswered:
            for drawing in self._answering():
                for picks in self._picks(drawing):
                    self.batch(pair.workers[Side.BASELINE], picks)
                    self.oracle.count()

    def _picks(self, drawing: Drawing) -> list[list[int]]:
        """Entries of the pool for the batches on a drawing, in random order; none twice where there are enough."""
        held = sum(self.drawn.calls)
        entries = itertools.cycle(self.chance.sample(range(held), held))
        picks = [list(itertools.islice(entries, calls)) for calls in drawing.calls]
        return self.chance.sample(picks, len(picks))

    def _rounds(self, pair: PairOfWorkers) -> None:
        """A pair's rounds of correctness, while there are kinds that were not checked yet."""
        for kind in [self.rounds.pop() for _ in self.rounds[:ROUNDS_A_PAIR]]:
            self._round(pair, kind)

    def _round(self, pair: PairOfWorkers, kind: str) -> None:
        """A batch of each side on other inputs than the timed ones; raises SideFault.

        The baseline comes last, on the same inputs: what it gets wrong itself proves nothing.
        """
        with self.phases.of("rounds"):
            calls, wrong = draw_calls(self.plan, self.chance)[1], {}  # as a timed batch has: nothing tells them apart
            self._draw((calls,), kind)
            for side in (Side.INCUMBENT, Side.CANDIDATE, Side.BASELINE):
                try:
                    if side in pair.workers:
                        self.batch(pair.workers[side], list(range(calls)))
                except SideFault as fault:
                    if fault.fault.rule != "wrong_values":
                        raise
                    wrong[side] = fault
            if Side.BASELINE in wrong:
                self.limited[kind] = wrong[Side.BASELINE].fault.reason
            elif wrong:
                raise next(iter(wrong.values()))

    def _draw(self, calls: tuple[int, ...], kind: str = "") -> None:
        """New secrets, for batches of so many calls."""
        with self.phases.of("draw"):
            self.drawn = Drawing(self.oracle.ask("draw", size=sum(calls), kind=kind)["number"], calls, kind)

    def batch(self, worker: WorkerLink, picks: list[int], run: Run | None = None) -> Stamped:
        """One batch of a side on these entries of the pool, in random slots, or what `run` runs; raises SideFault, CannotQueue or
        Unreadable."""
        order = self.chance.sample(range(self.slots), len(picks))
        expected_us, began = len(picks) * self.baseline_us, time.monotonic()
        self.began = self.began or began
        try:
            with self._spending(worker.side, began):
                return (run or self.batches.run)(worker, picks, order, expected_us)
        except SideFault as fault:
            if fault.fault.rule == "timeout" and time.monotonic() - began < HANGS_S + 50 * expected_us / 1e6:
                self._check_time()  # the verify's time was over, and the side is not to blame
            raise

    @contextlib.contextmanager
    def _spending(self, side: Side, began: float) -> Iterator[None]:
        try:
            yield
        finally:
            self.spent_s[side] = self.spent_s.get(side, 0.0) + time.monotonic() - began

    def known_entries(self, calls: int) -> list[int]:
        """Entries that the pool holds now, for batches that count for nothing: they may repeat, and be known to a side."""
        return [at % sum(self.drawn.calls) for at in range(calls)]

    def _warm(self, pair: PairOfWorkers, sides: Sequence[Side]) -> None:
        """Until two values of a side agree, for each side; a batch of the most calls first, so that all memory is known."""
        workers = [pair.workers[side] for side in sides]
        for worker in workers:
            if isinstance(self.batches, CardBatches):
                self.batches.learn_gate(worker, self.known_entries(self.slots), list(range(self.slots)),
                                        self.slots * self.baseline_us)
        for worker in workers:
            seen: list[float] = []
            until = time.monotonic() + WARM_S * self.plan.values_per_pair / VALUES_PER_PAIR
            while time.monotonic() < until:
                self._check_time()
                spans = [self.batch(worker, self.known_entries(calls)) for calls in (self.plan.n1, self.plan.n2)]
                if any(span.void for span in spans):
                    continue
                us = spans[1].span_us - spans[0].span_us
                if any(abs(us - other) <= WARM_AGREE[self.plan.mode] * abs(us) for other in seen):
                    break
                seen.append(us)

    def _check_time(self) -> None:
        """Once the verify's time is over: the fault of a side whose own batches took most of what there was, else nobody's."""
        if self.setting.left_s > 0:
            return
        all_s = time.monotonic() - (self.began or time.monotonic())
        for side, own_s in self.spent_s.items():
            if side is not Side.BASELINE and own_s > MOST * all_s:
                raise SideFault.of(side, "timeout", f"its own calls took {own_s:.0f} of the {all_s:.0f} s that there were to "
                                   "measure in")
        raise ToolError("the verify ran out of its timeout", fix="give a larger timeout, or fewer pairs with n")
