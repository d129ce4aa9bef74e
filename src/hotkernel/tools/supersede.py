"""supersede: moves a target's logs apart when they count no longer, and draws the board anew; deletes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from hotkernel.errors import ToolError
from hotkernel.records import leaderboard, pins, store, superseding
from hotkernel.records.state import state_dir
from hotkernel.schema.record import Logged, SupersedeResult
from hotkernel.session import Session


def supersede(
    session: Session,
    target: Annotated[str, "its name"],
    reason: Annotated[str, "in a word or two, such as baseline-changed: names the folder"],
    run: Annotated[str, "one log or id (default: all of the target's)"] = "",
    cwd: Annotated[str, "folder of results/"] = "",
) -> SupersedeResult:
    """Move a target's logs to superseded-<reason>/: they count no longer, and the board lists them apart.

    With none left its pins are forgotten, so that a changed baseline may be verified.
    """
    store.check_target(target)
    name = superseding.folder_name(reason)
    base, state = session.folder(cwd), state_dir(session.environment)
    with store.locked(state, base):
        shelf = store.read(base)
        mine = [each for each in shelf.records if each.record.target == target]
        chosen = _chosen(store.Shelf(tuple(mine)), run, target, base)
        moved = superseding.supersede(base, chosen, reason)
        board, _ = leaderboard.rebuild(base)
    left = len(mine) - len(moved)
    forgotten = not left and _forget_pins(session, state, base, chosen)
    return SupersedeResult(target=target, folder=f"{store.RESULTS}/{target}/{name}", moved=moved, left=left,
                           pins_forgotten=forgotten, leaderboard=str(board))


def _chosen(mine: store.Shelf, run: str, target: str, base: Path) -> tuple[Logged, ...]:
    if not mine.records:
        raise ToolError(f"nothing is recorded of {target} under {base / store.RESULTS}", fix="check target and cwd")
    if not run:
        return mine.records
    logged = mine.called(run)
    if logged is None:
        raise ToolError(f"no record of {target} is called {run[:80]!r}", fix="give a log or an id; history lists them")
    return (logged,)


def _forget_pins(session: Session, state: Path, base: Path, moved: tuple[Logged, ...]) -> bool:
    """Forget what the baselines of these logs were pinned to; True where anything was."""
    named = {command[-1] for each in moved if (command := each.record.comparison.cmds.get("baseline"))}
    files = [session.path(name, cwd=str(base)) for name in named]
    known = [file for file in files if pins.load(state, file)]
    for file in known:
        pins.forget(state, file)
    return bool(known)
