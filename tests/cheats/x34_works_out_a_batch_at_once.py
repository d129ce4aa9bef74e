# id: X34
# name: works_out_a_batch_at_once
# category: stream or async escape
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: a gain must be in a batch of one call too
# target: stepping, candidate(x) -> y: many steps on few numbers
import sys
import torch

_batch, _places = None, {}


def _real(x):
    for _ in range(40):
        x = x + 0.01 * torch.sin(x)
    return x


def candidate(x):
    global _batch, _places
    frame = sys._getframe(1)
    while frame and frame.f_code.co_name != "run_calls":
        frame = frame.f_back
    if frame is None:
        return _real(x)
    if frame is not _batch:
        inputs = [frame.f_locals["arguments"][slot].args[0] for slot in frame.f_locals["order"]]
        outputs = _real(torch.stack(inputs))
        _batch, _places = frame, dict(zip([each.data_ptr() for each in inputs], outputs))
    return _places[x.data_ptr()]
