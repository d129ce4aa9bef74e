"""Holds outputs against the expected values, batch after batch: each side's faults and errors so far; moves no memory."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

from hotkernel_contract.compare import STATISTICS, Expected, Tally, Tolerance, error_fault, statistics
from hotkernel_contract.paired import PairedErrors

if TYPE_CHECKING:
    from hotkernel_contract.loaded_target import LoadedTarget
    from hotkernel_contract.pool import Pool

_BAD = STATISTICS.index("bad")
Outputs = Sequence[Sequence[torch.Tensor]]  # of each call of a batch, and maybe of more; one an output
Right = Sequence[Sequence[Expected]]  # of each call of the batch


class OutputCheck:
    """What every side's outputs looked like so far; `names` are the outputs', in order."""

    def __init__(self, names: Sequence[str], tolerances: Sequence[Tolerance], on_card: bool) -> None:
        self.names, self.tolerances = tuple(names), tuple(tolerances)
        self.tallies: Dict[str, List[Tally]] = {}  # of each side, one an output
        self.paired = [PairedErrors() for _ in self.names]
        self.rounds: Dict[str, Dict[str, int]] = {}  # outputs checked of each side, by the kind of round
        self.kind = ""  # of the last drawing: empty for what is timed
        self.wrong: List[int] = []  # entries that the last batch of what is timed answered wrong
        self.last: Optional[Tuple[str, List[int], List[List[List[float]]]]] = None  # that batch: side, entries, their statistics
        self.check = pick_check(on_card)

    def new_drawing(self, number: int, kind: str = "") -> None:
        """What comes now is of this drawing; with a kind, of another distribution than the timed one."""
        self.kind, self.wrong, self.last = kind, [], None
        for paired in self.paired:
            paired.take(number)

    def fault_of(self, side: str, picks: List[int], outputs: Outputs, expected: Right) -> Optional[Tuple[str, str]]:
        """The first fault of a batch's values, or None; they count from now on."""
        if self.kind:
            return self._of_round(side, outputs, expected)
        return self._of_timed(side, picks, outputs, expected)

    def is_the_targets(self, fault: Optional[Tuple[str, str]], loaded: LoadedTarget, pool: Pool) -> bool:
        """Whether the baseline too is wrong on every entry of the pool that the last batch got wrong: then the target's
        tolerances are too narrow for it, and who meets such an input first is not to blame."""
        if fault is None or fault[0] != "wrong_values" or not self.wrong:
            return False
        return all(self._is_wrong(loaded.answer(pool.inputs(pick)), pool.expected[pick]) for pick in self.wrong)

    def _is_wrong(self, outputs: Sequence[torch.Tensor], right: Sequence[Expected]) -> bool:
        return any(self.statistics(at, [outputs], [right])[0][_BAD] > 0 for at in range(len(self.names)))

    def told(self, side: str) -> Dict[str, Any]:
        """One side's errors so far, its outputs as one."""
        tally = Tally.joined(self._tallies_of(side))
        return {**asdict(tally), "rms_ulps": tally.rms_ulps, "rounds": self.rounds.get(side, {})}

    def statistics(self, at: int, outputs: Outputs, expected: Right) -> List[List[float]]:
        """compare.STATISTICS of one output of each call of a batch."""
        found = self.check([call[at] for call in outputs[:len(expected)]], [right[at] for right in expected], self.tolerances[at])
        return found.tolist()  # type: ignore[no-any-return]

    def _tallies_of(self, side: str) -> List[Tally]:
        return self.tallies.setdefault(side, [Tally() for _ in self.names])

    def _of_timed(self, side: str, picks: List[int], outputs: Outputs, expected: Right) -> Optional[Tuple[str, str]]:
        first = None
        wrong = set()
        found = [self.statistics(at, outputs, expected) for at in range(len(self.names))]
        for at, (tally, rows, tolerance) in enumerate(zip(self._tallies_of(side), found, self.tolerances)):
            tally.add(rows)
            wrong.update(pick for pick, row in zip(picks, rows) if row[_BAD] > 0)
            first = first or self._of_output(at, error_fault(tally, tally, tolerance))
        self.wrong, self.last = sorted(wrong), (side, picks, found)
        return first

    def count(self) -> Dict[str, Tuple[str, str]]:
        """Compare the last batch's precision too, for it was timed and is not void: what is exact elsewhere may not make up
        for it, be it void or of another drawing. The faults of sides that are less precise than the baseline."""
        faults: Dict[str, Tuple[str, str]] = {}
        if self.last:
            side, picks, found = self.last
            self.last = None
            for at, (paired, rows, tolerance) in enumerate(zip(self.paired, found, self.tolerances)):
                paired.add(side, picks, rows)
                for other in paired.sides:
                    fault = self._of_output(at, error_fault(*paired.of(other), tolerance)
                                            or error_fault(*paired.of_last(other), tolerance))
                    if fault:
                        faults.setdefault(other, fault)
        return faults

    def _of_round(self, side: str, outputs: Outputs, expected: Right) -> Optional[Tuple[str, str]]:
        """A round of correctness on another distribution: by element alone, for precision is measured on the timed one."""
        counts = self.rounds.setdefault(side, {})
        counts[self.kind] = counts.get(self.kind, 0) + len(expected) * len(self.names)
        for at, tolerance in enumerate(self.tolerances):
            tally = Tally()
            tally.add(self.statistics(at, outputs, expected))
            fault = self._of_output(at, error_fault(tally, tally, tolerance))
            if fault:
                return fault[0], "on inputs of the kind %r: %s" % (self.kind, fault[1])
        return None

    def _of_output(self, at: int, fault: Optional[Tuple[str, str]]) -> Optional[Tuple[str, str]]:
        """A fault that says which of several outputs has it."""
        if fault is None or len(self.names) == 1:
            return fault
        return fault[0], "%s: %s" % (self.names[at], fault[1])


def check_all(outputs: List[torch.Tensor], expected: List[Expected], tolerance: Tolerance) -> torch.Tensor:
    """compare.STATISTICS of several outputs, a row each."""
    return torch.stack([statistics(output, right, tolerance) for output, right in zip(outputs, expected)])


def pick_check(on_card: bool) -> Callable[..., torch.Tensor]:
    """`check_all`, in one pass over each output where there is a card and Triton; the two agree (tests/gpu)."""
    if not on_card:
        return check_all
    try:
        from hotkernel_contract.check_kernel import fits, fused_statistics
    except ImportError:
        return check_all

    def check(outputs: List[torch.Tensor], expected: List[Expected], tolerance: Tolerance) -> torch.Tensor:
        fused = all(fits(output, right) for output, right in zip(outputs, expected))
        return (fused_statistics if fused else check_all)(outputs, expected, tolerance)

    return check
