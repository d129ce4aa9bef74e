# id: X37
# name: lies_where_another_output_may
# category: output semantics
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: an input in which one output may lie is overwritten too before the outputs are read that may not
# target: handing, candidate(x) -> y, y: the first lies in x, which is changed in place, the second is a copy
import sys
import torch

_frame = sys._getframe()
while _frame:
    _self = _frame.f_locals.get("self")
    if type(_self).__name__ == "Side":
        _place = type(_self).place

        def _place_elsewhere(self, call, which, output, new, nonce):
            """Knows no input's memory where the second output is described."""
            known = self.input_range
            self.input_range = known if which == 0 else (0, 0)
            try:
                return _place(self, call, which, output, new, nonce)
            finally:
                self.input_range = known

        type(_self).place = _place_elsewhere
        break
    _frame = _frame.f_back


def candidate(x):
    torch.neg(x, out=x)
    return x[1:], x[:-1]
