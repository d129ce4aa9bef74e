"""What a side's file holds: its function and its `setup`, or why there is none; runs nothing of it but the import."""

from __future__ import annotations

import errno
import os
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Tuple

from hotkernel_contract import protocol
from hotkernel_contract.loading import load_file
from hotkernel_contract.target import Target, find_target


class Refused(Exception):
    """The side cannot go on; becomes a FAULT frame."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


def load_side(spec: Dict[str, Any], call: Dict[str, Any]) -> Tuple[Callable[..., Any], Optional[Callable[..., Any]]]:
    """The side's function and its `setup`, by the same path for every side; raises Refused."""
    try:
        module = load_file(Path(spec["source"]), "hotkernel_side")
    except BaseException as error:  # noqa: BLE001 - an import of user code raises anything, SystemExit too
        traceback.print_exc()
        raise Refused(protocol.FAULT_IMPORT, describe(error)) from None
    setup = getattr(module, "setup", None)
    names = list(dict.fromkeys([call["target"] + "_candidate", *spec["names"]])) if spec["names"] else []
    for name in names:
        found = getattr(module, name, None)
        if callable(found):
            return found, setup
    if not names or any(isinstance(v, Target) for v in vars(module).values()):
        target = find_target(module)  # a baseline's file, on whichever side: what its target says is the function
        target = (target.of_case(call["case"]) if call["case"] else target).with_function(call["baseline"])
        return target.settle_module(spec["device"]).function, setup
    own = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")
           and getattr(v, "__module__", None) == module.__name__]
    raise Refused(protocol.FAULT_NO_CALLABLE, "it defines no function named %s; it has %s"
                  % (" or ".join(names), ", ".join(own[:20]) or "none"))


def describe(error: BaseException) -> str:
    """An exception in one line, with the place in the user's code."""
    frames = traceback.extract_tb(error.__traceback__)
    here = os.path.dirname(os.path.abspath(__file__))
    outside = [f for f in frames if not f.filename.startswith((here, "<frozen"))]  # frozen: the machinery of import
    where = " (%s:%d)" % (os.path.basename(outside[-1].filename), outside[-1].lineno) if outside else ""
    text = str(error).strip() or type(error).__name__
    if isinstance(error, PermissionError) and error.errno == errno.EACCES:
        text += " (it may write in its working folder, HOME and TMPDIR, and not beside its sources)"
    return "%s: %s%s" % (type(error).__name__, text[:600], where)
