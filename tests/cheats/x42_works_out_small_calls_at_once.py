# id: X42
# name: works_out_small_calls_at_once
# category: stream or async escape
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch, cuda
# why: a gain must be in calls whose inputs are made one after the other, however small they are
# target: tiny, candidate(x) -> y: a gelu of few numbers
import sys
import torch

_batch, _places = None, {}


def candidate(x):
    global _batch, _places
    frame = sys._getframe(1)
    while frame and frame.f_code.co_name != "run_calls":
        frame = frame.f_back
    if frame is None or len(frame.f_locals["order"]) == 1:
        return torch.nn.functional.gelu(x.clone())
    if frame is not _batch:
        inputs = [frame.f_locals["arguments"][slot].args[0] for slot in frame.f_locals["order"]]
        outputs = torch.nn.functional.gelu(torch.stack(inputs))
        _batch, _places = frame, dict(zip([each.data_ptr() for each in inputs], outputs))
    return _places[x.data_ptr()]
