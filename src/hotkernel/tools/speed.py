"""verify: prepares one comparison, hands it to a referee, relays its progress and answers what it saved."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from hotkernel import __version__
from hotkernel.errors import ToolError
from hotkernel.harness import sources
from hotkernel.harness.plan import VALUES_PER_PAIR
from hotkernel.harness.referees import RefereeProcess
from hotkernel.harness.zygote import Zygote
from hotkernel.judge.earlier_keys import verify_result
from hotkernel.machine import folders
from hotkernel.machine.process import Cancelled
from hotkernel.parameter import Bounds
from hotkernel.records import calibrations, comparisons, pins, store
from hotkernel.records.advice import run_best
from hotkernel.records.state import state_dir
from hotkernel.scaffold import vendor
from hotkernel.schema.comparison import Comparison, Source, VerifyResult
from hotkernel.schema.gpu import Gpu
from hotkernel.schema.plain import to_plain
from hotkernel.schema.request import Request
from hotkernel.schema.verdict import Side
from hotkernel.session import Session
from hotkernel.tools import case_verdicts
from hotkernel.tools.card_lock import card_held, first_gpu
from hotkernel.tools.script_pairs import compare_scripts

CONTRACT_WORD = "hotkernel_contract"
DEFAULT_SCRIPT_RUNS = 7
LINE_LIMIT_BYTES = 8 << 20


def verify(
    session: Session,
    candidate: Annotated[str, "file with the rewrite: defines <target>_candidate or candidate"],
    baseline: Annotated[str, "its baseline file; or any script that prints the JSON line"],
    n: Annotated[int | None, "most pairs (default: looks at 3, 5, 7, 10), or runs of each script (7)",
                 Bounds(1, 100)] = None,
    warmup: Annotated[int, "runs before those; script pairs only", Bounds(0, 100)] = 2,
    args: Annotated[Sequence[str] | None, "of both scripts"] = None,
    cwd: Annotated[str, "folder that paths are relative to"] = "",
    timeout: Annotated[float, "seconds for a target's verify, or a script's run", Bounds(1, 86_400)] = 600,
    incumbent: Annotated[str, "best so far, run beside both: `best` of the records, a file or an id"] = "",
) -> VerifyResult:
    """Judge a candidate against its baseline: faster, slower, inconclusive, incorrect or invalid, with the reason.

    Fresh secret inputs for every call, every output checked, the clock outside, pairs of fresh processes, a gain confirmed
    on new ones. Scripts that print their times are compared as self_reported. Keep the id for `record`.
    """
    began = time.monotonic()
    files = {Side.BASELINE: session.file(baseline, cwd=cwd or None), Side.CANDIDATE: session.file(candidate, cwd=cwd or None)}
    if _are_swapped(files):
        raise ToolError("the baseline and the candidate look swapped",
                        fix=f"the candidate comes first: verify {baseline} {candidate}")
    if CONTRACT_WORD not in _text(files[Side.BASELINE]):
        found = compare_scripts(session, candidate, baseline, n or DEFAULT_SCRIPT_RUNS, warmup, args, cwd, timeout)
        comparisons.save(state_dir(session.environment), found)
        return verify_result(found, warmup=warmup, wall_s=time.monotonic() - began)
    if args:
        raise ToolError("args is for scripts; a target takes none", fix="leave args out, or put what varies into the target")
    found = judge(session, files, n=n, cwd=cwd, timeout=timeout, incumbent=incumbent)
    return verify_result(found, warmup=None, wall_s=time.monotonic() - began)


def _are_swapped(files: dict[Side, Path]) -> bool:
    """By their names; or the target is the candidate, and the baseline neither one nor a script that prints its time."""
    if files[Side.CANDIDATE].stem.endswith("_baseline") and files[Side.BASELINE].stem.endswith("_candidate"):
        return True
    script = _text(files[Side.BASELINE])
    return CONTRACT_WORD in _text(files[Side.CANDIDATE]) and not any(word in script for word in (CONTRACT_WORD, '"ms"', "'ms'"))


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8", errors="replace")


def judge(session: Session, files: dict[Side, Path], *, n: int | None = None, cwd: str = "", timeout: float = 600.0,
          incumbent: str = "", values_per_pair: int = VALUES_PER_PAIR, confirms: str | None = None) -> Comparison:
    """One verify of a target under the card's lock; fewer values a pair are for tests, which have many to judge.

    One that `confirms` a recorded comparison stands alone: it neither goes on with the key's test nor counts as a try.
    """
    state = state_dir(session.environment)
    python = session.python()
    with _scratch() as scratch:
        gpu = first_gpu(session)
        with card_held(session):
            began = time.monotonic()
            session.progress("starting the user's Python", None, None)
            session.nursery.start_ahead(session.environment)  # beside the zygote, which may have torch to import
            zygote = session.nursery.zygote(python, session.environment, state / "zygote.log")
            request = _request(session, files, state, scratch, zygote, gpu, n, cwd, timeout, incumbent)
            request = replace(request, values_per_pair=values_per_pair, confirms=confirms, keep_ledger=confirms is None)
            comparison = _referee(session, zygote, request)
            if comparison.case:
                comparison = case_verdicts.over_cases(session, request, comparison, lambda asked: _referee(
                    session, zygote, asked))
        return replace(comparison, seconds={**comparison.seconds, "verify": time.monotonic() - began})


@contextlib.contextmanager
def _scratch() -> Iterator[Path]:
    """A folder for one verify, gone afterwards. Raises ToolError where none can be made."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="hotkernel-"))
    except OSError as error:
        raise ToolError(f"no folder for temporary files can be made: {error.strerror or error}",
                        fix="make room there, or set TMPDIR to another folder") from None
    try:
        yield folder
    finally:
        folders.remove(folder)


def _request(session: Session, files: dict[Side, Path], state: Path, scratch: Path, zygote: Zygote, gpu: Gpu | None,
             n: int | None, cwd: str, timeout: float, incumbent: str) -> Request:
    """Everything the referee needs; sources are copied here, once."""
    target = files[Side.BASELINE].stem.removesuffix("_baseline")
    candidate = files[Side.CANDIDATE]
    if not candidate.samefile(files[Side.BASELINE]):  # that one runs where it lies: tensors lie beside it
        candidate = sources.snapshot(candidate, scratch / "candidate" / "source")
    copies = {Side.CANDIDATE: candidate}
    best, best_id = _incumbent(session, state, target, incumbent, cwd, scratch, card_names(gpu))
    if best:
        copies[Side.INCUMBENT] = best
    paths = {Side.BASELINE: files[Side.BASELINE], **copies}
    identity = (str(zygote.key[0]), zygote.versions.torch, str(zygote.versions.cuda), gpu.name if gpu and gpu.name else "cpu")
    other = {Side.BASELINE: files[Side.CANDIDATE]}
    sides = {side: {"path": str(path), "names": _names(side, target), "caches": str(sources.caches_for(
        state, path, side, *identity, other=other.get(side)))} for side, path in paths.items()}
    kept = calibrations.load(state, gpu.uuid, gpu.driver, gpu.power_limit_w) if gpu else None
    contract = _contract_hash()
    beside = vendor.copy_beside(files[Side.BASELINE])
    return Request(
        target=target, id=comparisons.new_id(), baseline_file=str(files[Side.BASELINE]),
        sides={str(k): v for k, v in sides.items()},
        environment=dict(session.environment), scratch=str(scratch), state=str(state), device="",
        visible=gpu.uuid if gpu and gpu.uuid else "", gpu_uuid=gpu.uuid if gpu else None, gpu=gpu.name if gpu else None,
        driver=gpu.driver if gpu else None, power_limit_w=gpu.power_limit_w if gpu else None, cores=list(zygote.cores),
        timeout_s=timeout, n=n, pins=pins.load(state, files[Side.BASELINE]), contract_sha256=contract,
        sources=_sources(paths, contract), calibration=kept.calibration if kept else None, incumbent_id=best_id,
        versions={"torch": zygote.versions.torch},
        cmds={str(side): [str(zygote.key[0]), str(path)] for side, path in files.items()},
        contract_edited=beside is not None and not beside.is_intact,
        warnings=_version_warning(beside.version if beside else __version__))


def card_names(gpu: Gpu | None) -> tuple[str, ...]:
    """What a record of a target may call where it was judged (advice.card_of): this card, else the CPU."""
    named = gpu.uuid or gpu.name if gpu else None
    return (named, "cpu") if named else ("cpu",)


def _names(side: Side, target: str) -> list[str]:
    return [] if side is Side.BASELINE else [f"{target}_candidate", "candidate"]


def _version_warning(version: str) -> list[str]:
    if version in ("", __version__):
        return []
    return [f"the contract beside the target is hotkernel {version}'s; verify used {__version__}'s own"]


def _contract_hash() -> str:
    """SHA-256 over the installed contract: what judges, whatever copy lies beside a target."""
    import hotkernel_contract

    whole = hashlib.sha256()
    for file in sorted(Path(hotkernel_contract.__path__[0]).glob("*.py")):
        whole.update(file.name.encode() + b"\0" + file.read_bytes())
    return whole.hexdigest()


def _sources(paths: dict[Side, Path], contract: str) -> dict[str, Source]:
    found = {"contract": Source("hotkernel_contract", contract)}
    for side, path in paths.items():
        content = path.read_bytes()
        text = None if side is Side.BASELINE else content.decode("utf-8", "replace")
        found[side] = Source(path.name, hashlib.sha256(content).hexdigest(), text)
    return found


def _incumbent(session: Session, state: Path, target: str, named: str, cwd: str, scratch: Path,
               cards: Sequence[str]) -> tuple[Path | None, str | None]:
    """The file of the best so far, as a copy, and the id of its comparison where it has one."""
    if not named:
        return None, None
    folder = scratch / "incumbent" / "source"
    if named == "best":
        shelf = store.read(session.path(cwd) if cwd else session.root)
        records = [each.record for each in shelf.records]
        record = next((best for card in cards if (best := run_best(records, target, card))), None)
        if record is None:
            return None, None
        kept = record.comparison  # the log's own copy: it may have been judged on another machine
    elif session.path(named, cwd=cwd or None).is_file():
        return sources.snapshot(session.path(named, cwd=cwd or None), folder), None
    else:
        kept = comparisons.load(state, named)
    source = kept.sources.get("candidate")
    if source is None or source.text is None:
        raise ToolError(f"comparison {kept.id} kept no source", fix="name the incumbent's file")
    folder.mkdir(parents=True)
    path = folder / f"{target}_candidate.py"
    path.write_text(source.text, encoding="utf-8")
    return path, kept.id


def _referee(session: Session, zygote: Zygote, request: Request) -> Comparison:
    """Ask a referee, relay what it says, and load what it saved."""
    with contextlib.closing(session.nursery.referee(session.job, session.environment)) as referee:
        with zygote.attach() as connection:
            referee.ask(to_plain(request), connection)
        answer = _relay(session, referee, time.monotonic() + request.timeout_s + 60.0)
    if session.nursery.is_served:
        session.nursery.start_ahead(session.environment)  # for the next: no candidate is there
    if "error" in answer:
        raise ToolError(answer["error"], fix=answer["fix"], detail=answer["detail"])
    if "bug" in answer:
        raise RuntimeError(f"the referee failed: {answer['bug']}\n{answer['detail']}")
    if answer["id"] != request.id:
        raise ToolError("something answered in the referee's place", fix="end what else runs as this user, and verify again")
    comparison = comparisons.load(Path(request.state), answer["id"])
    if comparison.pins:  # at the first verify, where new_target did not pin the target
        pins.save(Path(request.state), Path(request.baseline_file), comparison.pins)
    return comparison


def _relay(session: Session, referee: RefereeProcess, deadline: float) -> dict[str, Any]:
    """The referee's last word; what it says before becomes progress."""
    said_by = referee.process.stdout
    assert said_by is not None
    pending = b""
    while time.monotonic() < deadline:
        if session.job.is_cancelled:
            raise Cancelled
        ready, _, _ = select.select([said_by], [], [], 0.2)
        if not ready:
            continue
        part = os.read(said_by.fileno(), 1 << 16)
        if not part or len(pending) > LINE_LIMIT_BYTES:
            break
        *lines, pending = (pending + part).split(b"\n")
        for line in lines:
            said: dict[str, Any] = json.loads(line)
            if "progress" not in said:
                return said
            session.progress(said["progress"], said["done"], said["total"])
    if session.job.is_cancelled:  # a cancel ends the referee too, and its end may be seen first
        raise Cancelled
    raise ToolError("the referee ended without an answer", fix="try again; if it happens again, report it with the detail",
                    detail=referee.last_words())
