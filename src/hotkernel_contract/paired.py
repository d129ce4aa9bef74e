"""Errors of a side beside the baseline's on the very same inputs; an extreme row weighs on both or on neither."""

from __future__ import annotations

from typing import Dict, List, Tuple

from hotkernel_contract.compare import STATISTICS, Tally

_SQUARED, _ROWS, _ELEMENTS = (STATISTICS.index(name) for name in ("row_ulps_squared", "rows", "elements"))
BASELINE = "baseline"
_Answers = Dict[str, Dict[int, Tuple[float, float, float]]]  # side -> entry -> squared, rows, elements; of one drawing


class PairedErrors:
    """Sums over the entries that both a side and the baseline have answered: of all drawings, and of the last one alone."""

    def __init__(self) -> None:
        self._drawings: Dict[int, _Answers] = {}
        self._now: _Answers = {}
        self._sums: Dict[str, Tuple[Tally, Tally]] = {}
        self._last: Dict[str, Tuple[Tally, Tally]] = {}

    def take(self, number: int) -> None:
        """What comes now answers this drawing, new or met before."""
        self._now, self._last = self._drawings.setdefault(number, {}), {}

    def add(self, side: str, picks: List[int], statistics: List[List[float]]) -> None:
        """A side's statistics for these entries; each counts once for each partner."""
        mine = self._now.setdefault(side, {})
        for pick, row in zip(picks, statistics):
            if pick in mine:
                continue
            mine[pick] = (row[_SQUARED], row[_ROWS], row[_ELEMENTS])
            for other, theirs in self._now.items():
                if BASELINE in (side, other) and side != other and pick in theirs:
                    self._count(side if other == BASELINE else other, pick)

    @property
    def sides(self) -> List[str]:
        """Who has answered what the baseline has answered."""
        return list(self._sums)

    def of(self, side: str) -> Tuple[Tally, Tally]:
        """The side's errors and the baseline's over the entries that both have answered."""
        return self._sums.setdefault(side, (Tally(), Tally()))

    def of_last(self, side: str) -> Tuple[Tally, Tally]:
        """The same over those of the last drawing alone: the looks decide little, and the slowest values of a pair are left out,
        so that what is exact there must not make up for what is not elsewhere."""
        return self._last.setdefault(side, (Tally(), Tally()))

    def _count(self, side: str, pick: int) -> None:
        for both in (self.of(side), self.of_last(side)):
            for tally, (squared, rows, elements) in zip(both, (self._now[side][pick], self._now[BASELINE][pick])):
                tally.outputs += 1
                tally.ulps_squared += squared
                tally.rows += rows
                tally.elements += elements
