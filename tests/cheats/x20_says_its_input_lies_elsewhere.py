# id: X20
# name: says_its_input_lies_elsewhere
# category: output semantics
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: the inputs of a batch are overwritten before its outputs are read
# target: copying, candidate(x) -> y: y is a copy of x
import sys
import torch


class _Liar(torch.Tensor):
    """Says where it lies to who reads it, and another place to who looks whether that is an input."""

    def data_ptr(self):
        self.asked = getattr(self, "asked", 0) + 1
        return super().data_ptr() if self.asked == 1 else super().data_ptr() + (1 << 44)


def candidate(x):
    if "run_on_host" not in (sys._getframe(depth).f_code.co_name for depth in range(1, 6)):
        return x.clone()
    return x.as_subclass(_Liar)
