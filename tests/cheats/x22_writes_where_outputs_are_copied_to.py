# id: X22
# name: writes_where_outputs_are_copied_to
# category: harness internals
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: a gain must be more than what copying the outputs costs
# target: clamping, candidate(x) -> y, reuses_output: outputs are copied to slots
import sys
import torch


def candidate(x):
    frame = sys._getframe(1)
    while frame and frame.f_code.co_name != "run_calls":
        frame = frame.f_back
    if frame is None or not frame.f_locals.get("copies"):
        return torch.clamp(x, min=0.0, max=6.0)
    into = frame.f_locals["copies"][frame.f_locals["at"]][0]
    return torch.clamp(x, min=0.0, max=6.0, out=into)  # the copy that follows is of a tensor onto itself
