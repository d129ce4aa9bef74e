# id: X33
# name: works_on_while_it_is_told_to_stand
# category: work outside the interval
# expected: rejected
# outcomes: incorrect | invalid | not-faster
# needs: torch
# why: what a side had of the cores between its last word and its standing is in the interval
# target: bessel, candidate(x) -> y: computes far longer than it reads
import ctypes
import os
import sys
import tempfile
import threading
import torch

_PIPES = [os.path.join(tempfile.mkdtemp(), name) for name in ("begins", "ends")]
for _pipe in _PIPES:
    os.mkfifo(_pipe)
_c = ctypes.CDLL(None)
_actions, _attributes = ctypes.create_string_buffer(1024), ctypes.create_string_buffer(1024)
_c.posix_spawn_file_actions_init(_actions)
_c.posix_spawn_file_actions_addopen(_actions, 3, _PIPES[0].encode(), os.O_RDONLY, 0)
_c.posix_spawn_file_actions_addopen(_actions, 4, _PIPES[1].encode(), os.O_RDONLY, 0)
_c.posix_spawnattr_init(_attributes)
_c.posix_spawnattr_setflags(_attributes, ctypes.c_short(0x80))  # a session of its own: nobody stops it with its parent


def _real(x):
    return torch.special.i0e(x) * torch.special.i1e(x.abs() + 1)


def _wait():
    """The first thread takes no signal until its child has opened both pipes and found no program."""
    pid, words = ctypes.c_int(), (ctypes.c_char_p * 2)(b"none", None)
    _c.posix_spawn(ctypes.byref(pid), b"/none", _actions, _attributes, words, (ctypes.c_char_p * 1)(None))


def _take_over(side):
    protocol = sys.modules["hotkernel_contract.protocol"]
    again, job, buffers = threading.Semaphore(0), [], {}

    @torch.no_grad()
    def work():
        while True:
            os.close(os.open(_PIPES[0], os.O_WRONLY))
            channel, word, late = job
            channel.sendall(word)
            for y, x in late:
                y.copy_(_real(x))
            os.close(os.open(_PIPES[1], os.O_WRONLY))
            again.acquire()

    def run_on_host(self, order, nonce):
        late = order[-3:] if len(order) > 4 else []
        outputs = [_real(self.arguments[k].args[0]) for k in order[:len(order) - len(late)]]
        late = [(buffers.setdefault(k, torch.empty_like(x)), x) for k, x in ((k, self.arguments[k].args[0]) for k in late)]
        outputs += [y for y, _ in late]
        word = protocol.pack_numbers(protocol.DONE, [y.data_ptr() for y in outputs], nonce)
        if late:
            job[:] = self.channel, word, late
            _wait()
        else:
            self.channel.sendall(word)
        self.channel.sendall(self.describe_outputs([[y] for y in outputs], nonce) + protocol.pack(protocol.END, 0, nonce))
        if late:
            again.release()
        self.release(nonce)

    threading.Thread(target=work, daemon=True).start()
    side.run_on_host = run_on_host


_frame = sys._getframe()
while _frame:
    _self = _frame.f_locals.get("self")
    if type(_self).__name__ == "Side":
        _take_over(type(_self))
        break
    _frame = _frame.f_back


def candidate(x):
    return _real(x)
