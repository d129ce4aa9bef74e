"""Whatever a worker does instead of its work has a name: it dies, hangs, writes junk, answers late, forks, raises."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from process_trees import are_gone, wait_until
from workers import GOOD, Nest, start_zygote

from hotkernel.errors import ToolError
from hotkernel.harness.batches import STOOD_US
from hotkernel.harness.environment import private
from hotkernel.harness.links import LOG_LIMIT_BYTES, SAID_LIMIT, OracleLink, SideFault, WorkerLink, clean, nonce
from hotkernel.harness.zygote import Zygote
from hotkernel.schema.verdict import Fault, Side, VerdictKind
from hotkernel_contract import protocol

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

CHANNEL = 3  # of every child of the zygote; whoever guesses it may write there, and is named for it
CONTINUES_ITSELF = """
import ctypes, signal
class Event(ctypes.Structure):
    _fields_ = [("value", ctypes.c_void_p), ("signo", ctypes.c_int), ("notify", ctypes.c_int), ("pad", ctypes.c_char * 48)]
class Spec(ctypes.Structure):
    _fields_ = [(n, ctypes.c_long) for n in ("every_s", "every_ns", "first_s", "first_ns")]
library, timer = ctypes.CDLL(None), ctypes.c_void_p()
library.timer_create(1, ctypes.byref(Event(None, signal.SIGCONT, 0)), ctypes.byref(timer))
library.timer_settime(timer, 0, ctypes.byref(Spec(0, 200_000_000, 0, 200_000_000)), None)
signal.signal(signal.SIGCONT, lambda *_: sum(range(200_000)))
"""
WORSE = "import os, signal, sys, time, torch\nfrom hotkernel_contract import protocol\ncalls = 0\n"


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    zygote = start_zygote(tmp_path_factory.mktemp("zygote"))
    yield zygote
    zygote.close()


@pytest.fixture
def nest(zygote: Zygote, tmp_path: Path) -> Iterator[Nest]:
    nest = Nest(zygote, tmp_path)
    yield nest
    nest.close()


def at_import(*lines: str) -> str:
    return WORSE + "\n".join(lines) + "\n" + GOOD


def in_call(*lines: str, nth: int = 4) -> str:
    """A candidate that behaves in the two calls before it is ready, and does this in its `nth` call."""
    body = "\n".join("        " + line for line in lines)
    return f"{WORSE}def candidate(x):\n    global calls\n    calls += 1\n    if calls == {nth}:\n{body}\n    return x * 2\n"


def fault_of(nest: Nest, source: str, timeout_s: float = 20.0) -> Fault:
    """What a worker on this source is found guilty of, on its way to ready or in a few batches."""
    worker = nest.worker(source)
    with pytest.raises(SideFault) as caught:
        run_batches(nest, worker, timeout_s)
    assert caught.value.fault.side is Side.CANDIDATE
    return caught.value.fault


def run_batches(nest: Nest, worker: WorkerLink, timeout_s: float) -> None:
    nest.ready(worker, timeout_s)
    for number in range(1, 6):
        nest.batch(worker, timeout_s=timeout_s, nonce=number)


# It ends --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [
    at_import("os._exit(0)"),
    at_import("os.kill(os.getpid(), signal.SIGKILL)"),
    at_import("os.close(3)"),
    in_call("os._exit(7)"),
    in_call("os.kill(os.getpid(), signal.SIGSEGV)"),
    in_call("os.abort()"),
], ids=["exit at import", "killed at import", "closes its channel", "exit in a call", "segfault", "abort"])
def test_a_worker_that_ends_is_an_early_exit(nest, source):
    fault = fault_of(nest, source)

    assert (fault.kind, fault.rule) == (VerdictKind.INVALID, "early_exit")
    assert "ended by itself" in fault.reason


def test_a_worker_that_is_gone_still_has_its_say(nest):
    worker = nest.worker("import no_such_module_at_all\n")
    worker.send(protocol.pack(protocol.MAP))
    worker.send_message(nest.layout, (nest.arena.fd,))
    assert are_gone([worker.pid], 10)
    with pytest.raises(SideFault) as caught:
        worker.send_message(nest.layout, (nest.arena.fd,))

    assert caught.value.fault.rule == "import_failed"


def test_a_worker_loads_nothing_before_it_is_told_to(nest, tmp_path):
    worker = nest.worker("import os\nopen(os.environ['HOME'] + '/loaded', 'w').close()\n" + GOOD)
    worker.expect(protocol.HELLO, time.monotonic() + 20)

    assert not wait_until(lambda: (tmp_path / "side-1" / "loaded").exists(), 0.3)


def test_a_process_that_has_itself_continued_is_seen(nest):
    worker = nest.worker(CONTINUES_ITSELF + GOOD)
    nest.ready(worker)
    assert worker.stand_still()

    assert wait_until(lambda: worker.ran_us() > STOOD_US, 5.0)


def test_a_process_that_stands_still_is_no_trouble(nest):
    worker = nest.worker("import threading, time\nthreading.Thread(target=time.sleep, args=(600,), daemon=True).start()\n" + GOOD)
    nest.ready(worker)
    for _ in range(5):
        assert worker.stand_still()
        assert worker.ran_us() <= STOOD_US
        worker.go_on()


def test_its_last_words_are_in_the_reason(nest):
    fault = fault_of(nest, in_call("print('no space\\x1b[31m left', file=sys.stderr, flush=True)", "os._exit(1)"))

    assert "no space [31m left" in fault.reason


def test_sys_exit_at_import_is_a_failed_import(nest):
    fault = fault_of(nest, at_import("sys.exit('bye')"))

    assert (fault.kind, fault.rule) == (VerdictKind.INVALID, "import_failed")
    assert "SystemExit: bye" in fault.reason


# It does not come back ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("source", [
    at_import("time.sleep(60)"),
    at_import("while True: pass"),
    in_call("time.sleep(60)", nth=1),
    in_call("time.sleep(60)"),
    in_call("os.kill(os.getpid(), signal.SIGSTOP)"),
], ids=["hangs at import", "spins at import", "hangs in the first call", "hangs in a batch", "stops itself"])
def test_a_worker_that_hangs_is_a_timeout(nest, source):
    began = time.monotonic()
    fault = fault_of(nest, source, timeout_s=1.0)

    assert (fault.kind, fault.rule) == (VerdictKind.INVALID, "timeout")
    assert time.monotonic() - began < 4.0


def test_a_worker_that_sends_a_byte_now_and_then_gains_no_time(nest):
    trickle = in_call("for _ in range(400):", f"    os.write({CHANNEL}, b'H')", "    time.sleep(0.05)")
    began = time.monotonic()
    fault = fault_of(nest, trickle, timeout_s=1.0)

    assert fault.rule == "timeout"
    assert time.monotonic() - began < 4.0


def test_no_wait_for_a_worker_is_longer_than_its_verify(nest):
    worker = nest.worker(at_import("time.sleep(60)"))
    worker.until = time.monotonic() + 0.5
    began = time.monotonic()
    with pytest.raises(SideFault, match="did not come back in time"):
        nest.ready(worker, timeout_s=60)

    assert time.monotonic() - began < 4.0


def test_a_worker_that_answers_late_is_a_timeout_and_its_late_answer_serves_no_other_batch(nest):
    worker = nest.worker(in_call("time.sleep(1.0)"))
    nest.ready(worker)
    with pytest.raises(SideFault, match="did not come back in time"):
        nest.batch(worker, timeout_s=0.2, nonce=1)
    with pytest.raises(SideFault) as caught:
        nest.batch(worker, timeout_s=5.0, nonce=2)
    assert caught.value.fault.rule == "out_of_protocol"


# It writes where it should not ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("written", [
    "b'{\"ms\": 0.001}\\n' * 200",
    "bytes(1024)",
    "os.urandom(4096)",
    "b'x'",
    "protocol.pack(protocol.HELLO)",
    "protocol.pack(protocol.READY)",
    "protocol.pack(protocol.END, 0, 1)",
    "protocol.pack_numbers(protocol.DONE, [0] * 4, 12345)",
    "protocol.pack(protocol.RUN, 4, 1)",
    "protocol.pack(999)",
], ids=["a line", "zeros", "noise", "one byte", "hello", "ready", "end", "done", "run", "unknown"])
def test_bytes_of_a_workers_own_are_out_of_protocol(nest, written):
    fault = fault_of(nest, in_call(f"os.write({CHANNEL}, {written})"))

    assert (fault.kind, fault.rule) == (VerdictKind.INVALID, "out_of_protocol")


@pytest.mark.parametrize("written", ["os.urandom(3000)", "protocol.pack(protocol.HELLO)", "protocol.pack(protocol.DONE)"])
def test_bytes_written_at_import_are_out_of_protocol(nest, written):
    assert fault_of(nest, at_import(f"os.write({CHANNEL}, {written})")).rule == "out_of_protocol"


def test_a_forged_fault_is_the_forgers_own(nest):
    fault = fault_of(nest, in_call(f"os.write({CHANNEL}, protocol.pack_text(protocol.FAULT, 3, 'the baseline: is wrong'))"))

    assert (fault.side, fault.rule) == (Side.CANDIDATE, "raised")
    assert fault.reason.startswith("the candidate: ")


def test_a_fault_of_an_unknown_code_is_a_fault_all_the_same(nest):
    fault = fault_of(nest, in_call(f"os.write({CHANNEL}, protocol.pack_text(protocol.FAULT, 9999, 'x'))"))

    assert (fault.kind, fault.rule) == (VerdictKind.INVALID, "raised")


def test_an_output_that_cannot_be_is_out_of_protocol(nest):
    lie = "import struct; os.write(3, protocol.pack_numbers(protocol.DONE, [8] * 4, NONCE))"
    described = "os.write(3, protocol.pack(protocol.OUTPUT, 4, NONCE, b'\\xff' * 900))"
    source = in_call(lie.replace("NONCE", "1"), described.replace("NONCE", "1"))  # had it guessed the nonce

    assert fault_of(nest, source).rule == "out_of_protocol"


def test_more_outputs_than_calls_are_out_of_protocol(nest):
    end = "protocol.pack_outputs([protocol.OutputAt(0, 0, 'float32', (3, 4), (4, 1), -1, 64, 48)] * 50, 1)"
    fault = fault_of(nest, in_call(f"os.write(3, protocol.pack_numbers(protocol.DONE, [8] * 4, 1) + {end})"))

    assert fault.rule == "out_of_protocol"


def test_allocations_without_end_are_out_of_protocol(nest):
    flood = "while True: os.write(3, protocol.pack_segment(1, 1 << 21, bytes(64), 1))"
    fault = fault_of(nest, in_call("os.write(3, protocol.pack_numbers(protocol.DONE, [8] * 4, 1))", flood))

    assert fault.rule == "out_of_protocol"


def test_a_flood_of_output_is_a_fault_before_the_disk_is_full(nest):
    fault = fault_of(nest, in_call(f"for _ in range({(LOG_LIMIT_BYTES >> 20) + 1}): os.write(1, bytes(1 << 20))"))

    assert (fault.kind, fault.rule) == (VerdictKind.INVALID, "log_flood")


# It forks -------------------------------------------------------------------------------------------------------------


def test_a_worker_whose_child_speaks_for_it_too_is_out_of_protocol(nest):
    fault = fault_of(nest, in_call("os.fork()").replace("return x", "time.sleep(0.01); return x"), timeout_s=2.0)

    assert fault.kind is VerdictKind.INVALID
    assert fault.rule in ("out_of_protocol", "timeout")  # whichever of the two gets the referee's next word


def test_a_worker_whose_child_ends_at_once_is_no_fault(nest):
    worker = nest.worker(in_call("pid = os.fork()", "if pid == 0: os._exit(0)", "os.waitpid(pid, 0)"))
    nest.ready(worker)

    assert nest.batch(worker, nonce=1)
    assert nest.batch(worker, nonce=2)


def test_a_child_that_lives_on_stands_still_with_its_worker(nest):
    worker = nest.worker(at_import("if os.fork() == 0:", "    os.setsid()", "    while True:",
                                   "        open('beat', 'a').write('.')", "        time.sleep(0.001)"))
    beat = worker.log.parent / "beat"
    nest.ready(worker)
    assert wait_until(lambda: beat.exists() and beat.stat().st_size > 5)
    assert worker.stand_still()
    size = beat.stat().st_size
    wait_until(lambda: False, 0.05)

    assert beat.stat().st_size == size
    worker.go_on()
    assert wait_until(lambda: beat.stat().st_size > size)
    assert nest.batch(worker, nonce=1)


# Its code -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "kind", "rule", "says"), [
    ("def candidate(x:\n", "invalid", "import_failed", "SyntaxError"),
    ("import no_such_module_at_all\n", "invalid", "import_failed", "No module named"),
    (at_import("raise ValueError('at import')"), "invalid", "import_failed", "ValueError: at import (t_candidate.py:4)"),
    ("X = 1\ndef other(x):\n    return x\n", "invalid", "no_callable", "t_candidate or candidate; it has other"),
    ("candidate = 7\n", "invalid", "no_callable", "it has none"),
    ("def candidate(x, w):\n    return x\n", "invalid", "raised", "TypeError: candidate() missing 1 required"),
    (in_call("raise RuntimeError('in a call')"), "invalid", "raised", "RuntimeError: in a call (t_candidate.py:8)"),
    (in_call("sys.exit(3)"), "invalid", "raised", "SystemExit: 3"),
    (in_call("raise KeyboardInterrupt"), "invalid", "raised", "KeyboardInterrupt"),
    (in_call("def deeper(): return deeper()", "deeper()"), "invalid", "raised", "RecursionError"),
    (in_call("return None"), "incorrect", "wrong_output", "NoneType"),
    (in_call("return [x * 2]"), "incorrect", "wrong_output", "it returned output[0], the baseline output"),
    (in_call("return (x * 2).to_sparse()"), "incorrect", "wrong_output", "tensor of 2 dimensions"),
    (in_call("return (x * 2).to(torch.complex64)"), "incorrect", "wrong_output", "complex64"),
    (in_call("return (x * 2).to('meta')"), "incorrect", "wrong_output", "meta"),
    (in_call("return torch.empty(1 << 60)"), "invalid", "raised", "memory"),
])
def test_what_its_code_does_is_named(nest, source, kind, rule, says):
    fault = fault_of(nest, source)

    assert (fault.kind, fault.rule) == (kind, rule)
    assert says in fault.reason


def test_a_syntax_error_is_told_with_its_own_place_alone(nest):
    fault = fault_of(nest, "import torch\n\ndef candidate(x:\n    return x\n")

    assert "t_candidate.py, line 3" in fault.reason
    assert "frozen" not in fault.reason


def test_another_kind_of_output_is_told_as_it_is_for_the_oracle_to_judge(nest):
    worker = nest.worker("import torch\ndef candidate(x):\n    return torch.zeros(2, 2, 2).half().transpose(0, 2)\n")
    nest.ready(worker)
    found = nest.batch(worker)[0]

    assert (found.dtype, found.shape, found.strides) == ("float16", (2, 2, 2), (1, 2, 4))


def test_a_candidates_words_are_bounded_and_without_control_characters():
    words = clean("a\x1b]0;title\x07\nb" + "c" * 10_000)

    assert words.isprintable()
    assert len(words) <= SAID_LIMIT
    assert words.startswith("a ]0;title  b")


def test_a_nonce_cannot_be_guessed_from_the_last():
    drawn = [nonce() for _ in range(1000)]

    assert len(set(drawn)) == 1000
    assert 0 not in drawn
    assert max(drawn) < 2**64


# The oracle's end -----------------------------------------------------------------------------------------------------


def oracle_of(nest: Nest, baseline: str) -> tuple[OracleLink, Path]:
    folder = nest.folder / "oracle"
    environment = private({"PATH": os.environ["PATH"]}, folder, folder / "caches", "")
    file = nest.folder / "t_baseline.py"
    file.write_text(baseline, encoding="utf-8")
    return OracleLink(nest.fork, environment, folder / "log", 20.0), file


TARGET = """
import os, time, torch
from hotkernel_contract import Target
def twice(x):
    return x * 2
TARGET = Target(name="t", function=twice, inputs={"x": "64x64"}, dtype="fp32", device="cpu")
"""


def learn(oracle, file):
    """All that a verify asks before it makes slots, and the proof."""
    said = {**oracle.ask("load", baseline=str(file), device="", threads=1), **oracle.ask("describe")}
    oracle.ask("prove")
    return said


def test_the_oracle_says_what_the_target_is(nest):
    oracle, file = oracle_of(nest, TARGET)
    said = learn(oracle, file)

    assert (said["name"], said["device"], said["shapes"]) == ("t", "cpu", {"x": [64, 64]})
    assert said["loaded"].keys() == {str(file)}
    oracle.end()
    assert are_gone([oracle.pid], 5)


@pytest.mark.parametrize(("change", "says"), [
    (("return x * 2", "return x * 0"), "one constant"),
    (('"64x64"', '"64x0"'), "at least 1"),
    (("TARGET =", "OTHER = None and"), "defines no hotkernel Target"),
    (("return x * 2", "raise ValueError('no')"), "ValueError: no"),
    (("import os", "import no_such_module_at_all, os"), "No module named"),
    (("def twice(x):", "def twice(x:"), "SyntaxError"),
    (("return x * 2", "os._exit(3)"), "the oracle ended in 'describe'"),
], ids=["constant", "empty", "no target", "raises", "import", "syntax", "exits"])
def test_a_baseline_that_cannot_be_used_is_an_error_that_says_why(nest, change, says):
    oracle, file = oracle_of(nest, TARGET.replace(*change))
    with pytest.raises(ToolError) as refusal:
        learn(oracle, file)

    assert says in refusal.value.message
    assert refusal.value.fix


def test_a_reference_that_hangs_has_an_end(nest):
    oracle, file = oracle_of(nest, TARGET.replace("return x * 2", "time.sleep(60)"))
    oracle.channel.settimeout(0.5)

    with pytest.raises(ToolError, match="ran out of its timeout"):
        learn(oracle, file)


def test_the_oracles_words_come_with_an_error_as_its_detail(nest):
    oracle, file = oracle_of(nest, TARGET.replace("return x * 2", "print('seen before', flush=True); raise ValueError('no')"))
    with pytest.raises(ToolError) as refusal:
        learn(oracle, file)

    assert "seen before" in refusal.value.detail


def test_a_worker_link_is_named_after_its_folder(nest):
    worker: WorkerLink = nest.worker()

    assert worker.name == "side-1"
    nest.ready(worker)
