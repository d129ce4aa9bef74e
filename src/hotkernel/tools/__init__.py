"""The list of tools, for both doors: names, modules, titles and hints; imports none of them."""

from __future__ import annotations

from collections.abc import Sequence

from hotkernel.tool import Hints, Listed, Tool, unknown

_READS = Hints(read_only=True, idempotent=True)
_RUNS = Hints(open_world=True)  # starts the user's own code, which may do anything


def _tool(name: str, module: str, title: str, hints: Hints, *places: str, is_long: bool = False,
          is_picture: bool = False, is_for_people: bool = False) -> Listed:
    return Listed(name, f"{__name__}.{module}", title, hints, is_long, places, is_picture, is_for_people)


LISTED = (
    _tool("gpu_info", "gpu", "What cards are here, and how they are", _READS),
    _tool("doctor", "doctor", "What works on this machine, and how to fix the rest", Hints(idempotent=True),
          is_long=True),
    _tool("roofline", "gpu", "How fast this work could be on this card", _READS),
    _tool("plot", "gpu", "The roofline as a picture", Hints(idempotent=True), is_picture=True),
    _tool("calibrate", "calibration", "Measure what this card really reaches", Hints(), is_long=True),
    _tool("torch_trace", "kernels", "Where a script's GPU time goes", _RUNS, "cwd", is_long=True),
    _tool("capture", "capture", "What dominates your model, and targets of it", _RUNS, "cwd", "out_dir", is_long=True),
    _tool("profile", "kernels", "Run a command under nsys or ncu", _RUNS, "cwd", "out_dir", is_long=True),
    _tool("top_kernels", "kernels", "The heaviest kernels of a saved report", Hints(idempotent=True)),
    _tool("disasm", "disassembly", "SASS or PTX of a kernel, findings first", _READS),
    _tool("explain", "disassembly", "Why a kernel is as fast as it is", _READS),
    _tool("new_target", "targets", "Make a target from your own function", Hints(destructive=True, open_world=True),
          "cwd", "out_dir", is_long=True),
    _tool("bench", "bench", "Time a script that prints its own time", _RUNS, "cwd", is_long=True),
    _tool("verify", "speed", "Judge a candidate against its baseline", _RUNS, "cwd", is_long=True),
    _tool("record", "records", "Keep a verdict and rebuild the leaderboard", Hints(idempotent=True, open_world=True), "cwd",
          is_long=True),
    _tool("history", "history", "What has been tried on a target", _READS, "cwd"),
    _tool("show", "history", "One record, or how two differ", _READS, "cwd"),
    _tool("report", "report", "The records as one HTML page", Hints(idempotent=True), "cwd", "out"),
    _tool("supersede", "supersede", "Move logs apart that count no longer", Hints(), "cwd",
          is_for_people=True),
    _tool("audit", "audit", "Recompute every verdict from its log", Hints(idempotent=True, open_world=True), "cwd",
          is_long=True),
)


def find(name: str, listed: Sequence[Listed]) -> Tool:
    """The tool of that name; ArgumentError, with the nearest, when there is none."""
    for each in listed:
        if each.name == name:
            return each.load()
    raise unknown(f"there is no tool {name[:80]!r}", name, (each.name for each in listed))
