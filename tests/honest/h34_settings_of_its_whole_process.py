# id: H34
# name: settings_of_its_whole_process
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch
# why: another default dtype, no garbage collection, a timer's signal each 3 ms, standard output closed, another working folder
# target: gelu, candidate(x) -> y; x [256, 1024] fp32
import gc
import os
import signal
import sys
import torch

torch.set_default_dtype(torch.float64)
torch.use_deterministic_algorithms(True)
torch.manual_seed(1)
gc.disable()
gc.freeze()
os.chdir("/")
sys.stdout = open(os.devnull, "w", encoding="utf-8")
signal.signal(signal.SIGALRM, lambda _number, _frame: None)
signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)


def candidate(x):
    return torch.nn.functional.gelu(x, approximate="tanh")
