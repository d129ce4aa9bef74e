"""A batch by the referee's clock with real workers: what is timed, what is wrong, whose fault it is."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from workers import Nest, own_environment, start_zygote

from hotkernel.harness.batches import Checks, Unreadable
from hotkernel.harness.environment import private
from hotkernel.harness.host_batches import HostBatches
from hotkernel.harness.links import LIMBER_UP_US, OracleLink, SideFault, WorkerLink
from hotkernel.harness.zygote import Zygote
from hotkernel.machine import tree
from hotkernel.schema.verdict import Fault, Side, VerdictKind
from hotkernel_contract import protocol

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

SLOTS = 6
TARGET = """
import torch
from hotkernel_contract import Target
def twice(x):
    return x * 2
TARGET = Target(name="t", function=twice, inputs={"x": "64x64"}, dtype="fp32", device="cpu"%s)
"""

IN_PLACE = """
from hotkernel_contract import Target
def t(x):
    x.add_(2e6)
    return x[:1] * 1
TARGET = Target(name="t", function=t, inputs={"x": "64x64"}, dtype="fp32", device="cpu", writes=("x",)%s)
"""


class Bench:
    """A real oracle with a target and its slots; workers are mapped onto them."""

    def __init__(self, nest: Nest, folder: Path, *, copies: bool = False, target: str = TARGET) -> None:
        self.nest, self.checks = nest, Checks()
        (folder / "oracle").mkdir()
        file = folder / "t_baseline.py"
        file.write_text(target % (", reuses_output=True" if copies else ""), encoding="utf-8")
        environment = private(own_environment(), folder / "oracle", folder / "oracle" / "caches", "")
        self.oracle = OracleLink(nest.fork, environment, folder / "oracle" / "log", 20.0)
        self.oracle.ask("load", baseline=str(file), device="", threads=1)
        self.oracle.ask("describe")
        nest.layout = self.oracle.ask("allocate", slots=SLOTS, copies=copies)
        nest.files = tuple(self.oracle.files)
        self.oracle.ask("draw", size=2 * SLOTS)
        self.batches = HostBatches(self.oracle, self.checks, time.monotonic(), 0)

    def worker(self, body: str, head: str = "", cores: Sequence[int] = ()) -> WorkerLink:
        lines = "\n".join("    " + line for line in body.split("\n"))
        worker = self.nest.worker(f"import os, time, torch\n{head}\ndef candidate(x):\n{lines}\n", cores=cores)
        self.nest.ready(worker)
        self.batches.ready(worker, b"")
        return worker

    def run(self, worker: WorkerLink, picks: list[int] | None = None, order: list[int] | None = None) -> Any:
        return self.batches.run(worker, picks or [3, 1, 4, 7], order or [5, 0, 2, 1], 100.0)


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    zygote = start_zygote(tmp_path_factory.mktemp("zygote"))
    yield zygote
    zygote.close()


@pytest.fixture
def bench(zygote: Zygote, tmp_path: Path) -> Iterator[Bench]:
    nest = Nest(zygote, tmp_path)
    yield Bench(nest, tmp_path)
    nest.close()


def test_a_batch_of_right_answers_is_stamped_and_every_output_checked(bench):
    worker = bench.worker("return x + x")
    for _ in range(5):
        stamped = bench.run(worker)
        assert stamped.span_us > 0

    (check,) = bench.checks.as_checks({})
    assert (check.side, check.outputs, check.ok, check.within_share) == (Side.CANDIDATE, 20, True, 1.0)


def test_the_span_holds_the_work_and_not_the_oracles(bench):
    slow = bench.run(bench.worker("time.sleep(0.02)\nreturn x + x"))

    assert 4 * 20_000 < slow.span_us < 4 * 20_000 + 50_000


def test_a_worker_stands_still_before_and_after_its_batch(bench):
    worker = bench.worker("return x + x")
    assert psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED
    bench.run(worker)

    assert psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED


def test_a_batch_has_one_call_ahead_of_it_for_nothing_and_a_long_one_has_none(bench):
    counting = "calls.append(1)\nopen('calls', 'w').write(str(len(calls)))\nreturn x + x"
    worker = bench.worker(counting, head="calls = []")
    counted = worker.log.parent / "calls"
    began = int(counted.read_text(encoding="utf-8"))
    bench.run(worker)
    short = int(counted.read_text(encoding="utf-8"))
    bench.batches.run(worker, [3, 1, 4, 7], [5, 0, 2, 1], 4 * 2 * LIMBER_UP_US)

    assert (short - began, int(counted.read_text(encoding="utf-8")) - short) == (5, 4)


def test_a_call_ahead_of_a_batch_that_writes_in_place_costs_it_nothing(zygote, tmp_path):
    nest = Nest(zygote, tmp_path)
    bench = Bench(nest, tmp_path, copies=True, target=IN_PLACE)
    worker = bench.worker("assert (x < 1e6).all()\nx.add_(2e6)\nreturn x[:1] * 1")  # twice on the same input it would raise
    for _ in range(3):
        bench.run(worker)
    nest.close()

    assert bench.checks.as_checks({})[0].ok


@pytest.mark.parametrize(("body", "kind", "rule"), [
    ("return x * 2.001", "incorrect", "wrong_values"),
    ("return torch.where(x.abs() > 100, x, x * 2)", "incorrect", "wrong_values"),
    ("return (x * 2)[:32]", "incorrect", "wrong_shape"),
    ("return x", "incorrect", "output_aliases_input"),
    ("return x.view(-1).view(64, 64)", "incorrect", "output_aliases_input"),
    ("return (x * 2).double()", "incorrect", "wrong_dtype"),
    ("return (x * 2).t().contiguous().t()", "incorrect", "wrong_strides"),
    ("y = x * 2\nx.add_(1)\nreturn y", "incorrect", "changed_input"),
])
def test_a_wrong_batch_is_its_sides_fault(bench, body, kind, rule):
    worker = bench.worker(body)
    with pytest.raises(SideFault) as caught:
        bench.run(worker)

    assert (caught.value.fault.side, caught.value.fault.kind, caught.value.fault.rule) == (Side.CANDIDATE, kind, rule)


def test_a_memo_of_the_last_batch_is_wrong_in_the_next(bench):
    worker = bench.worker("key = x.data_ptr()\nif key not in memo: memo[key] = x * 2\nreturn memo[key].clone()", head="memo = {}")
    with pytest.raises(SideFault, match="wrong"):
        [bench.run(worker, picks, order=[2, 3, 4, 5]) for picks in ([0, 1, 2, 3], [4, 5, 6, 7])]


def test_outputs_that_are_written_after_the_answer_are_wrong(bench):
    late = "y = torch.zeros_like(x)\nthreading.Timer(0.05, lambda: torch.mul(x, 2, out=y)).start()\nreturn y"
    worker = bench.worker(late, head="import threading")
    with pytest.raises(SideFault, match="wrong"):
        bench.run(worker)


def test_one_output_for_all_calls_is_told_from_outputs_of_their_own(bench):
    worker = bench.worker("return torch.mul(x, 2, out=kept)", head="kept = torch.empty(64, 64)")
    with pytest.raises(SideFault) as caught:
        bench.run(worker)

    assert caught.value.fault.rule == "outputs_overlap"


def test_one_output_for_all_calls_serves_where_outputs_are_copied(zygote, tmp_path):
    nest = Nest(zygote, tmp_path)
    bench = Bench(nest, tmp_path, copies=True)
    worker = bench.worker("return torch.mul(x, 2, out=kept)", head="kept = torch.empty(64, 64)")
    bench.run(worker)
    bench.run(worker)
    nest.close()

    assert bench.checks.as_checks({})[0].outputs == 8


def test_an_address_where_nothing_is_is_refused(bench):
    lie = "from hotkernel_contract import worker\nworker.address_of = lambda output: 8"
    with pytest.raises(SideFault) as caught:
        bench.run(bench.worker("return x * 2", head=lie))

    assert (caught.value.fault.rule, caught.value.fault.kind) == ("out_of_protocol", "invalid")


class Killing:
    """A real oracle, and a side that is killed as its question `op` is put or once it is answered, with all said that it had to
    say."""

    def __init__(self, oracle: OracleLink, worker: WorkerLink, op: str, *, is_answered: bool) -> None:
        self.oracle, self.worker, self.op, self.is_answered = oracle, worker, op, is_answered

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        if op == self.op and not self.is_answered:
            self.kill()
        answer = self.oracle.ask(op, **arguments)
        if op == self.op and self.is_answered:
            self.kill()
        return answer

    def kill(self) -> None:
        deadline = time.monotonic() + 20
        if self.op == "read":  # DONE was taken; what else it says is said before its end
            self.worker.go_on()
            while protocol.END not in self.said() and time.monotonic() < deadline:
                time.sleep(0.001)
            self.worker.stand_still()
        os.kill(self.worker.pid, signal.SIGKILL)
        while tree.is_running(self.worker.pid) and time.monotonic() < deadline:
            time.sleep(0.001)

    def said(self) -> list[int]:
        waiting = self.worker.channel.recv(1 << 16, socket.MSG_PEEK)
        frames = range(0, len(waiting) - protocol.FRAME_BYTES + 1, protocol.FRAME_BYTES)
        return [protocol.unpack(waiting[at:at + protocol.FRAME_BYTES]).kind for at in frames]


# It lives on with the side's channel in its hands, as the side's own end does for some milliseconds after its memory is gone.
HOLDS_THE_CHANNEL = "if os.fork() == 0:\n    time.sleep(60)\n    os._exit(0)"


@pytest.mark.parametrize("is_answered", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("op", ["fill", "read", "judge"])
def test_a_side_that_is_killed_has_ended_by_itself_whatever_the_moment(bench, op, is_answered):
    worker = bench.worker("return x + x")
    bench.run(worker)
    bench.batches.oracle = Killing(bench.oracle, worker, op, is_answered=is_answered)
    with pytest.raises(SideFault) as caught:
        [bench.run(worker, picks) for picks in ([0, 2, 5, 6], [1, 2, 3, 4])]  # after all is judged, the next batch tells

    assert (caught.value.fault.rule, caught.value.fault.kind) == ("early_exit", VerdictKind.INVALID)


def test_a_side_whose_memory_is_gone_before_its_channel_is_has_ended_by_itself_and_is_not_wrong(bench):
    worker = bench.worker("return x + x", head=HOLDS_THE_CHANNEL)
    bench.run(worker)
    bench.batches.oracle = Killing(bench.oracle, worker, "read", is_answered=False)
    with pytest.raises(SideFault) as caught:
        bench.run(worker, picks=[0, 2, 5, 6])

    assert (caught.value.fault.rule, caught.value.fault.kind) == ("early_exit", VerdictKind.INVALID)


class Forbidding:
    """A real oracle on a machine where no process may read another's memory."""

    def __init__(self, oracle: OracleLink) -> None:
        self.oracle = oracle

    def ask(self, op: str, **arguments: Any) -> dict[str, Any]:
        answer = self.oracle.ask(op, **arguments)
        return {"unreadable": "Operation not permitted", "errno": 1} if op == "read" else answer


def test_where_reading_is_forbidden_the_outputs_must_be_copied_and_nobody_is_to_blame(bench):
    bench.batches.oracle = Forbidding(bench.oracle)
    with pytest.raises(Unreadable, match="not permitted"):
        bench.run(bench.worker("return x * 2"))


def test_a_side_that_alone_forbids_reading_is_to_blame(bench):
    bench.run(bench.worker("return x * 2"))
    other = bench.worker("return x * 2")
    bench.batches.oracle = Forbidding(bench.oracle)
    with pytest.raises(SideFault) as caught:
        bench.run(other)

    assert caught.value.fault.rule == "out_of_protocol"


def test_a_side_that_broke_a_rule_is_marked_and_the_other_is_not():
    checks = Checks({"baseline": {"outputs": 4, "worst_bad_share": 0.0, "max_abs": 0.0, "max_rel": 0.0, "rms_ulps": 0.2},
                     "candidate": {"outputs": 3, "worst_bad_share": 0.5, "max_abs": 1.0, "max_rel": 1.0, "rms_ulps": 9e9}})
    baseline, candidate = checks.as_checks({"candidate": ("wrong_values", "it is wrong")})

    assert baseline.ok
    assert (candidate.ok, candidate.rule, candidate.within_share) == (False, "wrong_values", 0.5)


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no core can be chosen here")
def test_a_side_whose_threads_wait_for_each_other_shares_its_core_with_nobody(bench):
    bench.batches.cores = 1
    head = "import hashlib\nimport concurrent.futures as of\npool, block = of.ThreadPoolExecutor(2), bytes(8 << 20)"
    worker = bench.worker("list(pool.map(hashlib.sha256, [block] * 2))\nreturn x + x", head, [max(os.sched_getaffinity(0))])

    assert any(bench.run(worker).void is None for _ in range(10)), "all void, on a machine that has a core for it"


def test_a_side_that_runs_at_the_moment_of_the_look_does_not_stand_whatever_is_booked(bench):
    spins = "import threading\nthreading.Thread(target=lambda: all(iter(lambda: 1, 0)), daemon=True).start()"
    worker = bench.worker("return x * 2", spins)
    assert bench.checks.stood(worker)

    for pid in worker.standing:
        os.kill(pid, signal.SIGCONT)  # as a timer of its own would
    stood = bench.checks.stood(worker)

    assert not stood
    assert bench.checks.restless[worker.side] == 1


def test_idleness_in_one_batch_pays_for_no_other_core_in_the_next():
    worker: Any = SimpleNamespace(
        over_us=0.0, fault=lambda rule, _reason: SideFault(Fault(VerdictKind.INVALID, rule, "", Side.CANDIDATE)))
    batches = HostBatches(SimpleNamespace(), Checks(), 0.0, 2)
    batches._check_cores(worker, 0.0, 1e6)
    batches._check_cores(worker, 2_400.0, 1_000.0)

    with pytest.raises(SideFault) as caught:
        batches._check_cores(worker, 2_400.0, 1_000.0)
    assert caught.value.fault.rule == "more_cores"
