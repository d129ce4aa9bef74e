"""Takes from a worker what it needs for no honest call: writing elsewhere, other processes and cores, new rights; says so.

Irrevocable, so it comes before a line of the candidate is loaded. Linux only; the verdict does not rest on it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path
from typing import List

from hotkernel_contract.protocol import CONFINEMENT

_PR_SET_NO_NEW_PRIVS = 38
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446  # system calls, the same numbers on every architecture
_ASK_VERSION, _PATH_BENEATH = 1, 1
_SCOPE_SIGNAL = 1 << 1

# seccomp: of each machine the kernel's name, the number of seccomp itself, and those of what does nothing: sched_setaffinity,
# _setscheduler, _setparam, _setattr and setpriority, by which a side has more of its cores than the other, or the other less
_MACHINES = {"x86_64": (0xC000003E, 317, (203, 144, 142, 314, 141)), "aarch64": (0xC00000B7, 277, (122, 119, 118, 274, 140))}
_SET_FILTER, _SPECULATE = 1, 1 << 2  # older kernels make a process with a filter slower unless it says so
_LOAD, _AND, _IF_EQUAL, _RETURN = 0x20, 0x54, 0x15, 0x06
_ALLOW, _DO_NOTHING, _NO_SUCH_CALL = 0x7FFF0000, 0x00050000, 0x00050026

# Rights of Landlock over files, by the version that brought them. Reading, executing and ioctl stay free.
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_CARD = ("nvidia*", "dxg")  # below /dev; dxg: the card inside WSL2
_OWN_FOLDERS = ("HOME", "TMPDIR", "XDG_CACHE_HOME", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR", "TORCH_EXTENSIONS_DIR",
                "CUDA_CACHE_PATH", "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")


# Of root's rights those that an honest call may need: over files (CHOWN, DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, FSETID), and to
# lock memory. With the others it could set the clock that it is timed by, the card's clocks, or everybody's priority.
_KEPT_RIGHTS = 0b11111 | 1 << 14
_CAPABILITY_VERSION, _PR_CAPBSET_DROP = 0x20080522, 24


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


class _Step(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("if_so", ctypes.c_uint8), ("if_not", ctypes.c_uint8), ("value", ctypes.c_uint32)]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("steps", ctypes.POINTER(_Step))]


def landlock_version() -> int:
    """The Landlock interface of this kernel; 0 where there is none."""
    return max(0, _system_call(_CREATE_RULESET, None, 0, _ASK_VERSION)) if sys.platform.startswith("linux") else 0


def confine(on_card: bool) -> int:
    """Confine this process and all that it will start; the bits of protocol.CONFINEMENT that hold now.

    It may write below its scratch, its caches and /dev/shm alone, reaches the card only where it measures there, and can
    neither trace nor signal a process that it did not start; it stays on the cores that it has now, and has hardly a right that
    no user has. It must have a single thread.
    """
    held = 0
    if not sys.platform.startswith("linux"):
        return held
    held |= _bit("no_new_privs", ctypes.CDLL(None).prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
    held |= _bit("no_core_dump", _no_core_dump())
    version = landlock_version()
    if version and _landlock(version, on_card):
        held |= _bit("landlock", True) | _bit("landlock_signals", version >= 6)
    return held | _bit("own_cores", _keep_cores()) | _bit("few_rights", _drop_rights())


def _bit(name: str, holds: bool) -> int:
    return int(holds) << CONFINEMENT.index(name)


def _no_core_dump() -> bool:
    import resource

    try:
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump holds whatever lay in the slots
    except (OSError, ValueError):
        return False
    return True


def _drop_rights() -> bool:
    """Whether this process has none of root's rights but the kept ones, and no program that it starts gets them back."""
    library = ctypes.CDLL(None, use_errno=True)
    for right in range(64):  # those that this kernel does not know are refused, as all are where it is not root
        if not _KEPT_RIGHTS >> right & 1:
            library.prctl(_PR_CAPBSET_DROP, right, 0, 0, 0)
    head, sets = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0), (ctypes.c_uint32 * 6)()
    if library.capget(head, sets):
        return False
    kept = [_KEPT_RIGHTS & 0xFFFFFFFF] * 3 + [_KEPT_RIGHTS >> 32] * 3  # low words of effective, permitted, inheritable; high ones
    return library.capset(head, (ctypes.c_uint32 * 6)(*(have & keep for have, keep in zip(sets, kept)))) == 0


def _keep_cores() -> bool:
    """Whether this process, and whatever it starts, now stays on its cores and at its priority: asking for others succeeds and
    does nothing.

    The time of a child that has ended is not in its parent's, so that what ran elsewhere could not be counted. Root may take
    any priority, and whoever is a process's owner may lower it, the zygote's too, which all that comes inherits.
    """
    if platform.machine() not in _MACHINES or sys.maxsize < 1 << 32:
        return False
    machine, seccomp, idle = _MACHINES[platform.machine()]
    steps = [(_LOAD, 0, 0, 4), (_IF_EQUAL, 0, len(idle) + 4, machine),  # by another machine's numbers: to the last step
             (_LOAD, 0, 0, 0), (_AND, 0, 0, 0xBFFFFFFF),  # x32 has the same numbers with one bit more
             *((_IF_EQUAL, len(idle) - at, 0, number) for at, number in enumerate(idle)),
             (_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _DO_NOTHING), (_RETURN, 0, 0, _NO_SUCH_CALL)]
    program = _Program(len(steps), (_Step * len(steps))(*steps))
    return _system_call(seccomp, _SET_FILTER, _SPECULATE, ctypes.byref(program)) == 0


def _landlock(version: int, on_card: bool) -> bool:
    """Whether this thread's domain is set: from now on it writes to the allowed places only."""
    whole = _WRITE_FILE | _REMOVE_AND_MAKE | (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    rules = _Ruleset(whole, 0, _SCOPE_SIGNAL if version >= 6 else 0)
    ruleset = _system_call(_CREATE_RULESET, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if ruleset < 0:
        return False
    try:
        for place in _places(on_card):
            _allow(ruleset, place, whole)
        return _system_call(_RESTRICT_SELF, ruleset, 0) == 0
    finally:
        os.close(ruleset)


def _places(on_card: bool) -> List[str]:
    own = [os.environ[name] for name in _OWN_FOLDERS if os.environ.get(name)]
    card = [str(place) for pattern in _CARD for place in Path("/dev").glob(pattern)] if on_card else []
    # CUDA's events between processes lie in /dev/shm; threads are named below /proc/self, where a priority lies, too
    return [*own, "/dev/shm", "/proc/self/comm", "/proc/self/task", *_DEVICES, *card]


def _allow(ruleset: int, place: str, whole: int) -> None:
    """Let the domain write at `place` and below; a place that is not there needs no rule."""
    try:
        folder = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        allowed = whole if Path(place).is_dir() else whole & (_WRITE_FILE | _TRUNCATE)
        rule = _Beneath(allowed, folder)
        _system_call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
    finally:
        os.close(folder)


def _system_call(number: int, *arguments: object) -> int:
    words_wide = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return int(ctypes.CDLL(None, use_errno=True).syscall(ctypes.c_long(number), *words_wide))
