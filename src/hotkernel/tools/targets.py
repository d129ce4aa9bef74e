"""The tool new_target: a target made from the user's own function, tried, and only then left behind."""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from hotkernel.errors import ToolError
from hotkernel.machine import driver
from hotkernel.parameter import Alias, Bounds, Choices
from hotkernel.records import pins
from hotkernel.records.files import write_new, write_whole
from hotkernel.records.state import state_dir
from hotkernel.scaffold import blueprint, rendering, vendor
from hotkernel.scaffold.blueprint import Blueprint, FunctionPlace
from hotkernel.schema.target import NewTarget
from hotkernel.session import Session
from hotkernel.tools import target_trial
from hotkernel.tools.card_lock import card_held

DEFAULT_ITERS = 50


def new_target(
    session: Session,
    target: Annotated[str, "its name; names the files and the candidate's function"],
    from_: Annotated[str, "function or module to beat: torch.nn.functional:gelu, ./mykernels.py:fused", Alias("from")],
    shape: Annotated[str, "of the first input, x: 4096x8192; 4096:int64<32000, 64x64:bool:share=0.3"],
    dtype: Annotated[str, "of every input that names none: bf16, fp32, fp8_e4m3, int64 …"] = "bf16",
    extra: Annotated[list[str] | None, "more inputs in call order: w:8192, idx:4096:int64<32000"] = None,
    rotate: Annotated[list[str] | None, "inputs that stream, fresh for each call (default: the first)"] = None,
    out_dir: Annotated[str, "folder for them (default: cwd)"] = "",
    flops: Annotated[int | None, "of one call, for the roofline"] = None,
    reference: Annotated[str, "module:function that is right in fp32, when the function is not"] = "",
    more: Annotated[list[str] | None, "more of the contract, name=value each: constant.eps=1e-6, writes=x, backward=true, "
                    "static=weights, baseline.lib=m:f, case.small=x:64x64"] = None,
    derive: Annotated[str, "module:function from the dict of raw tensors to that of a call's"] = "",
    inputs: Annotated[list[str] | None, "with derive: the names that it returns, in call order"] = None,
    min_bytes: Annotated[int | None, "that a call must move (default: rotated inputs, outputs)"] = None,
    iters: Annotated[int, "calls in a batch of the plain line"] = DEFAULT_ITERS,
    seed: Annotated[int, "of the plain line's inputs"] = 0,
    rtol: Annotated[float | None, "of an element (default: its dtype's)"] = None,
    atol: Annotated[float | None, "of an element (default: a share of its row's RMS)"] = None,
    force: Annotated[bool, "replace files, a candidate's edits too"] = False,
    device: Annotated[str, "default: cuda where a card is", Choices("", "cuda", "cpu")] = "",
    mixture: Annotated[str, "normal: where extreme rows break the function", Choices("full", "normal")] = "full",
    max_error_ratio: Annotated[float | None, "times the baseline's RMS error (default 1.58)",
                               Bounds(1, 1000)] = None,
    reuses_output: Annotated[bool, "the function hands out static buffers"] = False,
    cwd: Annotated[str, "folder that paths are relative to"] = "",
    timeout: Annotated[float, "seconds for the trial", Bounds(1, 86_400)] = 600,
) -> NewTarget:
    """Make a target from a function: its baseline with the whole contract, a candidate to edit, and the contract's file.

    It is tried first and refused, with nothing written, where it does not run, its reference is constant, NaN or deaf to an
    input, or wrong answers would pass. Then edit <target>_candidate.py alone.
    """
    if cwd and not session.path(cwd).is_dir():
        raise ToolError(f"no such folder: {session.path(cwd)}", fix="check cwd")
    folder = session.path(out_dir or ".", cwd=cwd or None)
    settings = {"rtol": rtol, "atol": atol, "max_error_ratio": max_error_ratio, "flops": flops, "min_bytes": min_bytes,
                "mixture": mixture if mixture != "full" else None, "reuses_output": reuses_output or None,
                "device": device or None, "iters": iters if iters != DEFAULT_ITERS else None, "seed": seed or None}
    plan = Blueprint(
        target=target, function=_place(session, from_, cwd, "from"),
        inputs=_with_files(session, blueprint.read_inputs(shape, extra or ()), cwd), dtype=dtype,
        rotate=blueprint.read_names(rotate or ()),
        reference=_place(session, reference, cwd, "reference") if reference else None,
        derive=_place(session, derive, cwd, "derive") if derive else None, takes=blueprint.read_names(inputs or ()),
        more=blueprint.read_more(more or (), lambda text: _place(session, text, cwd, "baseline")),
        settings={name: value for name, value in settings.items() if value is not None})
    _refuse_own_source(plan, folder)
    warnings = _refuse_existing(plan, folder, force)
    with _made(folder), _trial_folder(folder) as trial, _card_of(session, plan):
        tried = target_trial.try_out(session, plan, folder, trial, timeout)
        texts = rendering.texts(tried.plan, folder, is_copy=tried.is_copy)
        _put(folder, texts, force)
    pinned, unpinned = _pin(session, plan, folder, texts, tried.loaded)
    files = {what: str(folder / name) for what, name in plan.file_names.items()}
    return NewTarget(
        target=target, files=files, inputs=tried.inputs, output=tried.output, dtype=dtype, rotate=tried.rotate,
        device=tried.device, next=_next(session, files), candidate_is_copy=tried.is_copy, torch=tried.torch,
        pinned=pinned, warnings=tuple(filter(None, [*warnings, *tried.warnings, unpinned])))


def _place(session: Session, text: str, cwd: str, what: str) -> FunctionPlace:
    return FunctionPlace.read(text, lambda path: session.path(path, cwd=cwd or None), what)


def _with_files(session: Session, inputs: dict[str, str], cwd: str) -> dict[str, str]:
    """Inputs, those from files by whole paths."""
    def whole(spec: str) -> str:
        if not spec.startswith(blueprint.FILE):
            return spec
        path, sharp, key = spec.removeprefix(blueprint.FILE).partition("#")
        return f"{blueprint.FILE}{session.file(path, cwd=cwd or None)}{sharp}{key}"

    return {name: whole(spec) for name, spec in inputs.items()}


def _refuse_own_source(plan: Blueprint, folder: Path) -> None:
    """A file that the target is made from is never written over, not even with force."""
    written = {folder / name for name in plan.file_names.values()}
    for place in (plan.function, plan.reference, plan.derive, *plan.more.baselines.values()):
        if place and place.file in written:
            raise ToolError(f"{place.file} holds a function that the target is made from, and would be written over",
                            fix="give another target name or another out_dir")


def _refuse_existing(plan: Blueprint, folder: Path, force: bool) -> list[str]:
    """Raise ToolError for what stands in the way; returns what is said of what force replaces."""
    names = plan.file_names
    if folder.exists() and not folder.is_dir():
        raise ToolError(f"{folder} is a file", fix="give a folder as out_dir")
    blocked = [name for name in (*names.values(), vendor.PACKAGE) if (folder / name).is_dir()]
    if blocked:
        raise ToolError(f"{folder / blocked[0]} is a folder", fix="move it away, or give another out_dir")
    there = [name for what, name in names.items() if what != "contract" and (folder / name).exists()]
    if there and not force:
        raise ToolError(f"{folder} has {' and '.join(there)} already",
                        fix="give another name or out_dir; force=true replaces them, and the candidate's edits are lost")
    contract = folder / names["contract"]
    if not contract.exists() or contract.read_bytes() == vendor.contract_text().encode():
        return []
    what = f"{contract} is {_described(folder / names['baseline'])}"
    if not force:
        raise ToolError(what, fix="give another out_dir, or force=true to replace it by this version's")
    return [f"{what}; it was replaced"]


def _described(baseline: Path) -> str:
    copy = vendor.copy_beside(baseline)
    if copy is None or not copy.version:
        return "no contract that hotkernel made"
    return f"the contract of hotkernel {copy.version}" if copy.is_intact else "a contract that was edited"


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    """The folder, made where it is not there; gone again when nothing comes of it. Raises ToolError."""
    missing = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ToolError(f"{folder} cannot be made: {error.strerror or error}",
                        fix="give another out_dir, or permission there") from None
    try:
        yield
    except BaseException:
        for each in missing:
            with contextlib.suppress(OSError):
                each.rmdir()
        raise


def _card_of(session: Session, plan: Blueprint) -> contextlib.AbstractContextManager[Any]:
    """The card while a target is tried on it: a verify that runs there would be void. A second on the CPU spoils none."""
    on_card = plan.settings.get("device") != "cpu" and driver.visible(driver.list_gpus().gpus, session.environment)
    return card_held(session) if on_card else contextlib.nullcontext()


@contextlib.contextmanager
def _trial_folder(folder: Path) -> Iterator[Path]:
    try:
        trial = Path(tempfile.mkdtemp(prefix=".hotkernel-new-", dir=folder))
    except OSError as error:
        raise ToolError(f"{folder} cannot be written: {error.strerror or error}",
                        fix="give write permission there, or another out_dir") from None
    try:
        yield trial
    finally:
        target_trial.remove(trial)


def _put(folder: Path, texts: Mapping[str, str], force: bool) -> None:
    """Put all files into place, or none: what stood there comes back when one cannot be written."""
    before: dict[Path, bytes | None] = {}
    try:
        for name, text in texts.items():
            path = folder / name
            old = path.read_bytes() if path.exists() else None
            if old == text.encode():
                continue
            if old is None and not force and not write_new(path, text):
                raise ToolError(f"{path} appeared in the meantime", fix="another call makes this target; give another name")
            before[path] = old
            if old is not None or force:
                write_whole(path, text)
    except BaseException:
        for path, old in before.items():
            with contextlib.suppress(OSError, ToolError):
                path.unlink(missing_ok=True) if old is None else write_whole(path, old)
        raise


def _pin(session: Session, plan: Blueprint, folder: Path, texts: Mapping[str, str],
         loaded: Mapping[str, str]) -> tuple[tuple[str, ...], str]:
    """Pin the target's files, anew where it was made anew; their paths, and a warning where they could not be pinned."""
    baseline = folder / plan.file_names["baseline"]
    sha256 = hashlib.sha256(texts[baseline.name].encode()).hexdigest()
    try:
        pins.save(state_dir(session.environment), baseline, {**loaded, str(baseline): sha256}, replace=True)
    except ToolError as error:
        return (), f"the target is not pinned ({error.message}); the first verify pins it"
    return tuple(sorted({*loaded, str(baseline)})), ""


def _next(session: Session, files: Mapping[str, Any]) -> tuple[str, ...]:
    """The commands that follow, with paths as short as they can be from the working root."""
    short = {what: str(path.relative_to(session.root)) if (path := Path(full)).is_relative_to(session.root) else full
             for what, full in files.items()}
    return (f"hotkernel bench {short['baseline']}", f"edit {short['candidate']}, and nothing else",
            f"hotkernel verify {short['candidate']} {short['baseline']}")
