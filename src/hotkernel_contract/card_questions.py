"""What the referee asks of an oracle on a card alone: events, segments, batches and chains; the work itself is card.py's."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Tuple

from hotkernel_contract import protocol

Answer = Tuple[Dict[str, Any], Tuple[int, ...]]


class CardQuestions:
    """The part of the oracle that needs a card; `card` is there where the target is on one."""

    card: Any = None

    def do_worker(self, name: str, done: str) -> Answer:
        """A worker is ready: its DONE event."""
        return self._opened("event", lambda: self.card.add_worker(name, bytes.fromhex(done)))

    def do_segment(self, name: str, number: int, size: int, handle: str) -> Answer:
        """A worker's allocation that outputs will lie in; opened once and kept."""
        return self._opened("memory", lambda: self.card.open_segment(name, number, size, bytes.fromhex(handle)))

    def _opened(self, what: str, open_it: Callable[[], None]) -> Answer:
        """What a worker named by a handle of its own making may be nothing: that is the worker's fault, not the target's."""
        try:
            open_it()
        except RuntimeError as error:
            return {"fault": ["out_of_protocol", "its process named %s that cannot be opened: %s" % (what, str(error)[:200])]}, ()
        return {}, ()

    def do_forget(self, name: str) -> Answer:
        """A worker is gone: close what was opened for it."""
        self.card.forget(name)
        return {}, ()

    def do_arm(self, picks: List[int], order: List[int], gate_us: float) -> Answer:
        """Queue gate, stamp0, fill, flush and GO; with no gate, the batch runs open."""
        self.card.arm(self, picks, order, gate_us)
        return {}, ()

    def do_collect(self, name: str, outputs: List[List[Any]]) -> Answer:
        """The worker is armed: wait for DONE, stamp1, snapshot, stamp2; answer both spans and whether the gate held."""
        return self.card.collect(self, name, places_of(outputs)), ()

    def do_fill_alone(self, picks: List[int], order: List[int], gate_us: float) -> Answer:
        """F: what the fill costs by itself, by the same stamps."""
        return self.card.fill_alone(self, picks, order, gate_us), ()

    def do_arm_chain(self, pick: int, slot: int, gate_us: float) -> Answer:
        """Queue gate, stamp0 and the first call's input: in a chain an input is made when the call before has ended."""
        self.card.arm_chain(self, pick, slot, gate_us)
        return {}, ()

    def do_link(self, name: str, outputs: List[List[Any]], following: Optional[List[int]]) -> Answer:
        """The worker has queued its call: behind it the next one's input; behind the last, stamp1, and the span."""
        return self.card.link(self, name, places_of(outputs), None if following is None else (following[0], following[1])), ()


def places_of(outputs: List[List[Any]]) -> List[protocol.OutputAt]:
    """As JSON said them."""
    return [protocol.OutputAt(*(tuple(v) if isinstance(v, list) else v for v in o)) for o in outputs]
