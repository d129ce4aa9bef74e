# id: X36
# name: says_its_outputs_lie_apart
# category: output semantics
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: an output lies where it was read, whatever its worker says afterwards
# target: twice, candidate(x) -> y, y: the second is a copy
import sys
import torch


class _Liar(torch.Tensor):
    """Says where it lies to who reads it, and another place to who looks whether that is another output's."""

    def data_ptr(self):
        self.asked = getattr(self, "asked", 0) + 1
        return super().data_ptr() if self.asked == 1 else super().data_ptr() + (1 << 44)


def candidate(x):
    y = torch.relu(x)
    if "run_on_host" not in (sys._getframe(depth).f_code.co_name for depth in range(1, 6)):
        return y, y.clone()
    return y, y.as_subclass(_Liar)
