"""Runs one script under torch.profiler in the user's Python and writes the trace and a short account; prints nothing.

    python torch_trace.py ACCOUNT.json TRACE.json script.py [arguments]

The script sees what it would see under plain `python script.py`: its own folder first on the path, its own argv, the
name `__main__`. Standard library and torch only, Python 3.9 on.
"""

from __future__ import annotations

import json
import runpy
import sys
import traceback
from pathlib import Path

TRACEBACK_LIMIT = 4000


def main(argv: list) -> int:
    account_path, trace_path, script = argv[1:4]
    # As plain python has it, before torch is imported: this folder's modules must hide nobody's. Not so under -P.
    if sys.path and Path(sys.path[0]).resolve() == Path(__file__).resolve().parent:
        sys.path[0] = str(Path(script).resolve().parent)
    account = {"script_exit_code": None, "error": None, "torch": None, "cuda": False, "cuda_used": False}
    try:
        import torch
        import torch.profiler
    except ImportError as error:
        account["error"] = "torch cannot be imported: {}".format(error)
        write(account_path, account)
        return 3
    account["torch"] = torch.__version__
    account["cuda"] = torch.cuda.is_available()
    sys.argv = [script, *argv[4:]]
    profiler = make_profiler(torch)
    try:
        profiler.start()
    except RuntimeError as error:
        account["error"] = "torch.profiler cannot start: {}".format(error)
        write(account_path, account)
        return 3
    try:
        account["script_exit_code"], account["error"] = _run(script)
        account["cuda_used"] = account["cuda"] and torch.cuda.is_initialized()
        if account["cuda_used"]:
            torch.cuda.synchronize()  # what is still queued belongs to the script
    except RuntimeError as error:  # a CUDA error of the script's own shows up late, here
        account["error"] = account["error"] or "the GPU reported: {}".format(error)
    finally:
        problem = finish(profiler, trace_path)
        account["error"] = account["error"] or problem
        write(account_path, account)
    return 0


def make_profiler(torch):
    activities = [torch.profiler.ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(torch.profiler.ProfilerActivity.CUDA)
    return torch.profiler.profile(activities=activities, record_shapes=True)


def _run(script: str) -> tuple:
    """The script's exit code and, when it failed, its traceback."""
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return int(stop.code or 0), None
        return 1, str(stop.code)[-TRACEBACK_LIMIT:]
    except BaseException:  # noqa: BLE001 - whatever a script raises is what is told
        return 1, traceback.format_exc()[-TRACEBACK_LIMIT:]
    return 0, None


def finish(profiler, trace_path: str):
    """Stop and write the trace; what went wrong, or None. A script that profiles itself may have stopped ours."""
    try:
        profiler.stop()
        profiler.export_chrome_trace(trace_path)
    except (RuntimeError, AssertionError, OSError) as error:
        return "the trace could not be written: {}".format(error)
    return None


def write(path: str, account: dict) -> None:
    partial = path + ".partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(account, file)
    Path(partial).replace(path)


if __name__ == "__main__":
    sys.exit(main(sys.argv))
