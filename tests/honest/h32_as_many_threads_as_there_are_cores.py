# id: H32
# name: as_many_threads_as_there_are_cores
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: asks in every call for a thread on each core of the machine, which has more than a side is given, and puts it back
# target: gelu, candidate(x) -> y; x [256, 1024] fp32
import os
import torch


def candidate(x):
    before = torch.get_num_threads()
    torch.set_num_threads(os.cpu_count() or 1)
    y = torch.nn.functional.gelu(x, approximate="tanh")
    torch.set_num_threads(before)
    return y
