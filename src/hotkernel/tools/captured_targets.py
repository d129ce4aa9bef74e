"""Makes a target of a captured row: its real calls, a file with the call or the module, and new_target's own trial."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hotkernel.errors import ToolError
from hotkernel.records import captures
from hotkernel.records.files import write_whole
from hotkernel.scaffold import captured
from hotkernel.schema.capture import MODULE, CapturedTarget, CaptureRow, CaptureRun
from hotkernel.schema.target import NewTarget
from hotkernel.session import Session
from hotkernel.tools import user_scripts
from hotkernel.tools.targets import new_target
from hotkernel.tools.user_scripts import Asked

SCHEMA = 1
OWN_CHECK = "fails its own check"  # the contract's words: the inputs' mixture, a long sum or many roundings are too much
PROPOSED = re.compile(r"; give atol=(\S+), a better reference")  # the contract's, from the baseline's own largest error


def row_of(run: CaptureRun, pick: str) -> CaptureRow:
    """The row of that number or name. Raises ToolError where there is none, or where no target can come of it."""
    words = pick.strip()
    if words.isdigit():
        found = [row for row in run.rows if row.number == int(words)]
    else:
        found = [row for row in run.rows if words in (row.name, row.name.rpartition("::")[2], row.name.rpartition(".")[2])]
        found = [row for row in found if row.name == words] or found
    if not found:
        named = ", ".join(row.name for row in run.rows[:10])
        raise ToolError(f"the capture has no row {pick[:80]!r}", fix=f"give a number up to {len(run.rows)}, or a name: {named}")
    if found[0].cannot:
        raise ToolError(f"no target can be made of {found[0].name}: {found[0].cannot}", fix="pick another row, or what calls it")
    return found[0]


def make_target(session: Session, asked: Asked, run: CaptureRun, row: CaptureRow, *, out_dir: str, keep: bool) -> CapturedTarget:
    """The target of a row's calls; nothing is left behind where it cannot be. Raises ToolError with the reason."""
    folder = session.path(out_dir or ".", cwd=asked.cwd or None)
    name = re.sub(r"\W", "_", row.name.rpartition("::")[2].rpartition(".")[2]).strip("_").lower()
    files = {what: folder / f"{name}_{ending}" for what, ending in
             (("call", "call.py"), ("known", "capture.json"), ("tensors", "tensors.pt"))}
    there = [each.name for each in files.values() if each.exists()]
    if there:
        raise ToolError(f"{folder} has {' and '.join(there)} already", fix="give another out_dir, or remove them")
    is_new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        seen = _seen(session, asked, row, files["tensors"], keep)
        choice = captured.choose(seen["calls"], _times(row, seen["calls"], run.steps))
        write_whole(files["call"], captured.source(name, row.name, asked.script.name, choice.first, files["tensors"]))
        made, notes = _tried(session, asked, row, choice, name, files, out_dir)
        known = _known(asked, run, row, choice, made, seen["is_inner"])
        write_whole(files["known"], json.dumps(known, indent=1) + "\n")
    except BaseException:
        for each in files.values():
            each.unlink(missing_ok=True)
        if is_new and not any(folder.iterdir()):
            folder.rmdir()
        raise
    left = (*choice.left_out, *(f"{count} calls: {why}" for why, count in seen["unfit"].items()),
            *_unseen(row, seen, run.steps), *notes)
    cases = captured.case_names(choice) if len(choice.calls) > 1 else [""]
    inputs = {case: tuple(f"{each}: {one['described']}" for each, one in call["inputs"].items())
              for case, call in zip(cases, choice.calls, strict=True)}
    return CapturedTarget(row.name, tuple(str(each) for each in files.values() if each.exists()), inputs, made, left)


def _seen(session: Session, asked: Asked, row: CaptureRow, tensors: Path, keep: bool) -> dict[str, Any]:
    """The row's real calls in one more step of the script. Raises ToolError where there is none that can be used."""
    with tempfile.TemporaryDirectory(prefix="hotkernel-pick-") as scratch:
        request = Path(scratch) / "request.json"
        told = {"kind": row.kind, "name": row.name, "step": asked.step, "tensors": str(tensors), "keep": keep}
        request.write_text(json.dumps(told), encoding="utf-8")
        seen = user_scripts.run(session, asked, "picking", Path(scratch) / "answer.json", request,
                                what="the look at its calls").answer
    if not seen["calls"]:
        why = "; ".join(seen["unfit"]) or "no call of it was seen: it runs inside of another operator, or in the backward"
        raise ToolError(f"no target can be made of {row.name}: {why}", fix="pick what calls it, an operator or a module above it")
    return seen


def _times(row: CaptureRow, calls: Sequence[Mapping[str, Any]], steps: int) -> dict[int, float]:
    """What each kind of call takes in all steps, by the inputs that the capture has for it; the share of those that were seen."""
    times: dict[int, float] = {}
    for at, call in enumerate(calls):
        mine = [each["described"] for each in call["inputs"].values()]
        for kind in row.kinds:
            if [each for each in kind.inputs if each.startswith("[") and " " in each][: len(mine)] == mine:
                times[at] = kind.time_us * min(1.0, call["calls"] * steps / kind.calls)
    return times


def _unseen(row: CaptureRow, seen: Mapping[str, Any], steps: int) -> list[str]:
    """What of the row's calls nobody could look at, in words."""
    missing = row.calls // steps - sum(call["calls"] for call in seen["calls"]) - sum(seen["unfit"].values())
    return [f"{missing} calls in a step from inside of other functions, or in the backward"] if missing > 0 else []


def _tried(session: Session, asked: Asked, row: CaptureRow, choice: captured.Choice, name: str, files: Mapping[str, Path],
           out_dir: str) -> tuple[NewTarget, list[str]]:
    """new_target's answer; where the function fails its own check, with gentler inputs, then with what its rounding needs."""
    given = captured.arguments(choice, files["tensors"])
    what = "module" if row.kind == MODULE else name
    attempts: list[dict[str, Any]] = [{}, {"mixture": "normal"}]
    if any(word in given["dtype"] for word in ("32", "64")):
        more = [*given["more"], f"reduction={captured.reduction_of(choice.first)}"]
        attempts.append({"mixture": "normal", "more": more})
    for at, attempt in enumerate(attempts):
        try:
            made = new_target(session, name, f"{files['call']}:{what}", out_dir=out_dir, cwd=asked.cwd, timeout=asked.timeout_s,
                              **{**given, **attempt})
        except ToolError as error:
            needs = PROPOSED.search(error.message)
            if needs and at + 1 == len(attempts) and "atol" not in attempt:
                attempts.append({**attempt, "atol": float(needs[1])})
            if OWN_CHECK in error.message and at + 1 < len(attempts):
                continue
            raise ToolError(f"no target can be made of {row.name}: {error.message}", fix=error.fix, detail=error.detail) from None
        return made, [*choice.first["notes"], *_needed(given, attempt), *_warned(choice.first)]
    raise AssertionError("the last attempt answers or raises")


def _needed(given: Mapping[str, Any], attempt: Mapping[str, Any]) -> list[str]:
    """What the target was given beyond what was captured, and why."""
    settings = {name: value for name, value in attempt.items() if name != "more"}
    words = [f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}" for name, value in settings.items()]
    words += [item for item in attempt.get("more", ()) if item not in given["more"]]
    return [f"{', '.join(words)}: without, it fails its own check"] if words else []


def _warned(call: Mapping[str, Any]) -> list[str]:
    said = []
    if call["grad"]:
        said.append("the step wants gradients of it; the target is of the forward call alone")
    if call["is_training"]:
        said.append("the module was in training; a target is judged in eval")
    return said


def key_of(asked: Asked) -> str:
    """What a capture of this script as it is now is kept under."""
    return captures.key_of(asked.script, asked.args, asked.step)


def _known(asked: Asked, run: CaptureRun, row: CaptureRow, choice: captured.Choice, made: NewTarget,
           is_inner: bool) -> dict[str, Any]:
    """What apply needs: where the calls are found again, and how long those of each case take in a step."""
    times = _times(row, choice.calls, run.steps)
    if len(choice.calls) == 1 and not choice.left_out and choice.first["calls"] * run.steps == row.calls:
        times = {0: row.time_us}  # all that the row has
    parts = [{"case": name, "key": call["key"], "calls": call["calls"], "us": times[at] / run.steps if at in times else None,
              "share": times[at] / run.total_us if at in times and run.total_us else None}
             for at, (name, call) in enumerate(zip(captured.case_names(choice), choice.calls, strict=True))]
    return {"schema": SCHEMA, "target": made.target, "capture": key_of(asked), "script": str(asked.script),
            "args": list(asked.args), "step": asked.step, "device": run.device, "kind": row.kind, "row": row.name,
            "tree": choice.first["tree"], "is_inner": is_inner,
            "writes": choice.first["writes"], "spellings": sorted({s for call in choice.calls for s in call["spellings"]}),
            "parts": parts}
