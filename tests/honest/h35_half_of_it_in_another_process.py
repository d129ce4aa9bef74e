# id: H35
# name: half_of_it_in_another_process
# category: honest
# expected: accepted
# outcomes: faster | slower | inconclusive
# needs: torch host
# why: a process that it forks when it is loaded does half of the rows in shared memory; each waits for the other
# target: gelu, candidate(x) -> y; x [256, 1024] fp32
import multiprocessing
import torch

_context = multiprocessing.get_context("fork")
_given, _done = torch.zeros(128, 1024).share_memory_(), torch.zeros(128, 1024).share_memory_()
_go, _ready = _context.Semaphore(0), _context.Semaphore(0)


def _work():
    torch.set_num_threads(1)
    while _go.acquire():
        _done.copy_(torch.nn.functional.gelu(_given, approximate="tanh"))
        _ready.release()


_context.Process(target=_work, daemon=True).start()


def candidate(x):
    _given.copy_(x[128:])
    _go.release()
    y = torch.empty_like(x)
    y[:128] = torch.nn.functional.gelu(x[:128], approximate="tanh")
    _ready.acquire()
    y[128:] = _done
    return y
