# id: H30
# name: weight_prepared_by_setup
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: a weight that is declared static, packed once by setup into a type of its own, kept in a module
# target: projection, candidate(x, w) -> y; w is what setup made
import torch


class Packed(torch.nn.Module):
    def __init__(self, w):
        super().__init__()
        self.register_buffer("turned", w.t().contiguous())

    def forward(self, x):
        return torch.mm(x, self.turned)


def setup(w):
    return {"w": Packed(w)}


def candidate(x, w):
    return w(x)
