"""Tries, in the user's Python, what a verify needs, each thing in a process of its own, and writes what happened as JSON.

    python probes.py ANSWERS.json SCRATCH

An answer is `ok`, `fail` or `skipped`, what was seen, and facts; what to do about it is the server's to say. A probe that
crashes or hangs costs its own answer and no other.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, Tuple

PROBE_S = 90.0  # CUDA's first start on a cold machine, or a compile by a slow disk, takes half of it
_PR_SET_DUMPABLE, _PR_SET_PTRACER = 4, 0x59616D61
NEEDS_CARD = ("triton", "cuda_ipc")

Answer = Tuple[str, str, Dict[str, Any]]  # status, what was seen, facts


def main(argv: List[str]) -> int:
    """Import torch, try everything, write the answers."""
    answers_file, scratch = argv[1], Path(argv[2])
    began, answers = time.perf_counter(), {}
    try:
        import torch

        imported = torch.__version__
        with contextlib.suppress(Exception):  # the probe itself says what is wrong
            import triton  # noqa: F401 - before the forks, as a zygote does it
    except BaseException as error:  # noqa: BLE001 - a broken install raises anything
        imported = ""
        answers["torch"] = told("fail", "%s: %s" % (type(error).__name__, str(error)[:500]), {})
    import_s = time.perf_counter() - began
    probes: List[Tuple[str, Callable[[Path], Answer]]] = [("confinement", confinement)]
    if imported:
        probes += [("torch", torch_on_card), ("triton", triton_kernel), ("cuda_ipc", cuda_ipc), ("read_process", read_other)]
    for name, probe in probes:
        if name in NEEDS_CARD and not answers["torch"]["facts"].get("card"):
            answers[name] = told("skipped", "torch sees no card here", {})
            continue
        answers[name] = in_a_fork(probe, scratch)
    if "torch" in answers:
        answers["torch"]["facts"]["import_s"] = import_s
    with open(answers_file, "w", encoding="utf-8") as file:
        json.dump({"python": "%d.%d.%d" % sys.version_info[:3], "executable": sys.executable, "answers": answers}, file)
    return 0


def told(status: str, seen: str, facts: Dict[str, Any]) -> Dict[str, Any]:
    return {"status": status, "seen": seen, "facts": facts}


def in_a_fork(probe: Callable[[Path], Answer], scratch: Path, limit_s: float = PROBE_S) -> Dict[str, Any]:
    """What a probe answers from a child; or how the child ended."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        os.setsid()
        try:
            answer = told(*probe(scratch))
        except BaseException as error:  # noqa: BLE001 - whatever it raises is what is told
            traceback.print_exc()
            answer = told("fail", "%s: %s" % (type(error).__name__, (str(error).strip() or "no reason given")[:500]), {})
        os.write(writing, json.dumps(answer).encode("utf-8") + b"\n")
        os._exit(0)
    os.close(writing)
    said, until = b"", time.monotonic() + limit_s
    while not said.endswith(b"\n") and select.select([reading], [], [], max(0.0, until - time.monotonic()))[0]:
        part = os.read(reading, 1 << 16)
        if not part:
            break
        said += part
    os.close(reading)
    in_time = time.monotonic() < until
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(OSError):
            kill(pid, signal.SIGKILL)
    status = os.waitpid(pid, 0)[1]
    if said.endswith(b"\n"):
        return json.loads(said)
    why = "it ended by signal %d" % (status & 0x7F) if in_time else "it did not end within %.0f s" % limit_s
    return told("fail", why, {})


def torch_on_card(_scratch: Path) -> Answer:
    """Whether torch computes on the first card."""
    import torch

    facts: Dict[str, Any] = {"torch": torch.__version__, "cuda": torch.version.cuda, "hip": torch.version.hip, "card": None}
    if torch.version.hip:
        return "fail", "torch %s is built for ROCm, which cannot be judged yet" % torch.__version__, facts
    if not torch.cuda.is_available():
        built = "for CUDA %s" % torch.version.cuda if torch.version.cuda else "without CUDA"
        return "skipped", "torch %s, built %s, sees no card" % (torch.__version__, built), facts
    facts["card"] = torch.cuda.get_device_name(0)
    facts["capability"] = "sm_%d%d" % torch.cuda.get_device_capability(0)
    x = torch.arange(1024, device="cuda", dtype=torch.float32)
    total = (x + 1.0).sum().item()
    if total != 1024 * 1025 / 2:
        return "fail", "torch added 1 to 1024 on the card and got %r" % total, facts
    return "ok", "torch %s (CUDA %s) computes on %s, %s" % (
        torch.__version__, torch.version.cuda, facts["card"], facts["capability"]), facts


def triton_kernel(scratch: Path) -> Answer:
    """Whether Triton compiles a kernel anew and runs it."""
    os.environ["TRITON_CACHE_DIR"] = str(scratch / "triton")
    import torch

    try:
        import triton
    except ImportError as error:
        return "skipped", "this Python has no Triton (%s)" % error, {}
    from hotkernel_contract.ceilings import BLOCK, TIMES, by_triton

    began = time.perf_counter()
    a, b, out = (torch.randn(BLOCK * TIMES, device="cuda") for _ in range(3))
    by_triton("triad", (out, a, b), out)()
    right = torch.allclose(out, a + 3.0 * b)
    took_s = time.perf_counter() - began
    if not right:
        return "fail", "Triton %s compiled a kernel that gave wrong numbers" % triton.__version__, {}
    return "ok", "Triton %s compiled and ran a kernel in %.1f s" % (triton.__version__, took_s), {"triton": triton.__version__}


def cuda_ipc(_scratch: Path) -> Answer:
    """Whether another process's device memory can be opened here, and its event be waited for."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        try:
            offer_memory(theirs)
        except BaseException as error:  # noqa: BLE001 - told to the other side
            theirs.sendall(("!%s: %s" % (type(error).__name__, str(error)[:400])).encode("utf-8"))
        os._exit(0)
    theirs.close()
    import torch

    from hotkernel_contract.slots import Driver, device_bytes

    ours.settimeout(PROBE_S / 2)
    offered = ours.recv(1 << 16)
    if len(offered) != 128:
        return "fail", "a process could not offer its memory: %s" % (offered[1:].decode("utf-8", "replace") or "it ended"), {}
    torch.zeros(1, device="cuda")
    driver = Driver()
    event = torch.cuda.Event.from_ipc_handle(torch.device("cuda", 0), offered[64:])
    torch.cuda.current_stream().wait_event(event)
    total = int(device_bytes(driver.open(offered[:64]), 1 << 20).to(torch.int64).sum().item())
    ours.sendall(b"read")
    if total != 7 << 20:
        return "fail", "another process's memory was opened and held other numbers", {}
    return "ok", "one process read another's device memory and waited for its event", {}


def offer_memory(channel: socket.socket) -> None:
    """The other side of `cuda_ipc`: a block full of sevens and an event behind it, until they were read."""
    import torch

    from hotkernel_contract.slots import DeviceArena, Driver

    torch.zeros(1, device="cuda")
    arena = DeviceArena(1 << 20, Driver())
    arena.base.fill_(7)
    event = torch.cuda.Event(interprocess=True, enable_timing=False)
    event.record()
    channel.sendall(arena.handle + event.ipc_handle())
    channel.settimeout(PROBE_S / 2)
    channel.recv(16)


def read_other(_scratch: Path) -> Answer:
    """Whether a process of ours may read another's memory (process_vm_readv), as the oracle does on the CPU."""
    import torch

    from hotkernel_contract.slots import read_process

    source = torch.arange(4096)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        library = ctypes.CDLL(None)
        library.prctl(_PR_SET_DUMPABLE, ctypes.c_ulong(1), 0, 0, 0)
        library.prctl(_PR_SET_PTRACER, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
        source.add_(1)
        os.write(writing, b"!")
        time.sleep(PROBE_S)  # until it is killed with its session
        os._exit(0)
    os.read(reading, 1)
    into = torch.empty_like(source)
    try:
        read_process(pid, source.data_ptr(), into)
    except (OSError, AttributeError) as error:
        return "fail", str(error), {}
    same = torch.equal(into, torch.arange(4096) + 1)
    return ("ok", "one process read another's memory", {}) if same else ("fail", "it read other numbers", {})


def confinement(scratch: Path) -> Answer:
    """Which fences a worker can be put behind, by going behind them and trying to write outside."""
    from hotkernel_contract.confinement import confine
    from hotkernel_contract.protocol import CONFINEMENT

    if not sys.platform.startswith("linux"):
        return "skipped", "only Linux has them", {}
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    os.environ["HOME"] = os.environ["TMPDIR"] = str(home)
    bits = confine(False)
    facts = {name: bool(bits >> place & 1) for place, name in enumerate(CONFINEMENT)}
    try:
        (scratch / "outside").write_bytes(b"")
        facts["landlock_holds"] = False
    except OSError:
        facts["landlock_holds"] = True
    lacking = [name for name, held in facts.items() if not held]
    return ("fail", "a worker is not held by %s" % ", ".join(lacking), facts) if lacking else (
        "ok", "a worker is held by %s, and wrote nothing outside its own folder" % ", ".join(CONFINEMENT), facts)


if __name__ == "__main__":
    import boot  # this file's folder is on sys.path, as for any script

    boot.bind_package()
    sys.exit(main(sys.argv))
