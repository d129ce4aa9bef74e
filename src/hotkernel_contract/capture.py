"""Runs a model's step under torch.profiler with every module's call marked; writes the trace and an account, prints nothing.

    python capture.py ACCOUNT.json TRACE.json STEP script.py [arguments]

STEP is a function of the script, called with nothing, or empty: then the whole script is what is traced.
"""

from __future__ import annotations

import re
import sys
import time
import traceback
from typing import Any, Dict, List, Tuple

MARK = "hotkernel_module:"  # begins the name of a module's range; profilers/model_rows.py reads it
TARGET_RANGE = "hotkernel_target"
WARM_STEPS, STEPS = 2, 3  # the first calls compile and allocate; three show what every step does
PATHS_KEPT, TRACEBACK_LIMIT = 8, 4000


def main(argv: List[str]) -> int:
    account_path, trace_path, step, script = argv[1:5]
    from hotkernel_contract.torch_trace import make_profiler, write
    from hotkernel_contract.user_script import UserScript

    account: Dict[str, Any] = {"error": None, "torch": None, "cuda": False, "cuda_used": False, "modules": [], "step_ms": []}
    try:
        import torch
        import torch.profiler
    except ImportError as error:
        write(account_path, {**account, "error": "torch cannot be imported: %s" % error})
        return 3
    account.update(torch=torch.__version__, cuda=torch.cuda.is_available())
    marks = ModuleMarks(UserScript(script, argv[5:], step))
    try:
        trace(marks, make_profiler(torch), trace_path, account)
    except BaseException:  # noqa: BLE001 - whatever a script raises is what is told
        account["error"] = traceback.format_exc()[-TRACEBACK_LIMIT:]
    account["cuda_used"] = account["cuda"] and torch.cuda.is_initialized()
    account["modules"] = marks.seen()
    write(account_path, account)
    return 0


def trace(marks: ModuleMarks, profiler: Any, trace_path: str, account: Dict[str, Any]) -> None:
    """Profile the steps, or the script, and write the trace."""
    from torch.profiler import record_function

    from hotkernel_contract.torch_trace import finish
    from hotkernel_contract.user_script import synchronise

    step = marks.script.load()
    for _ in range(WARM_STEPS if step else 0):
        step()  # type: ignore[misc]
    synchronise()
    marks.begin()
    profiler.start()
    try:
        for _ in range(STEPS if step else 1):
            began = time.perf_counter()
            if step:
                with record_function(TARGET_RANGE):
                    step()
                    synchronise()
            else:
                marks.script.run()
                synchronise()
            account["step_ms"].append((time.perf_counter() - began) * 1e3)
    finally:
        marks.end()
        account["error"] = finish(profiler, trace_path)


class ModuleMarks:
    """A range in the trace around every module's call, and what each kind of module was called with."""

    def __init__(self, script: Any) -> None:
        self.script = script
        self.kinds: Dict[Any, int] = {}  # class and inputs -> number
        self.rows: List[Dict[str, Any]] = []
        self.paths: Dict[int, str] = {}
        self.open: List[Any] = []
        self.hooks: List[Any] = []

    def begin(self) -> None:
        from torch.nn.modules import module

        self.hooks = [module.register_module_forward_pre_hook(self.enter)]
        try:
            self.hooks.append(module.register_module_forward_hook(self.leave, always_call=True))
        except TypeError:  # before torch 2.1: where a forward raises and the script goes on, its ranges stay open
            self.hooks.append(module.register_module_forward_hook(self.leave))

    def end(self) -> None:
        for hook in self.hooks:
            hook.remove()

    def enter(self, module: Any, inputs: Tuple[Any, ...]) -> None:
        import torch

        if not self.open and id(module) not in self.paths:
            for path, each in module.named_modules():
                self.paths.setdefault(id(each), path)
        kind = type(module)
        key = (kind, tuple((x.shape, x.dtype, x.stride()) if isinstance(x, torch.Tensor) else type(x) for x in inputs))
        number = self.kinds.setdefault(key, len(self.kinds))
        if number == len(self.rows):
            self.rows.append({"name": self.name_of(kind), "inputs": [described(x) for x in inputs], "paths": {}})
        self.rows[number]["paths"].setdefault(re.sub(r"\b\d+\b", "*", self.paths.get(id(module), "?")))
        mark = torch.profiler.record_function(MARK + str(number))
        self.open.append(mark)
        mark.__enter__()

    def leave(self, *_: Any) -> None:
        if self.open:
            self.open.pop().__exit__(None, None, None)

    def name_of(self, kind: type) -> str:
        """A class's name with its module's; without, where that is the script."""
        if self.script.is_of_script(kind.__module__):
            return kind.__qualname__
        parts = kind.__module__.split(".")
        return ".".join([*(parts[:2] if parts[:2] == ["torch", "nn"] else parts), kind.__qualname__])

    def seen(self) -> List[Dict[str, Any]]:
        return [{**row, "paths": list(row["paths"])[:PATHS_KEPT]} for row in self.rows]


def described(x: Any) -> List[str]:
    """Shape, dtype and strides of a tensor, the type of anything else: as a trace tells them of an operator's inputs."""
    import torch

    if not isinstance(x, torch.Tensor):
        return ["", type(x).__name__, ""]
    return [str(list(x.shape)).replace(" ", ""), str(x.dtype).replace("torch.", ""), str(list(x.stride())).replace(" ", "")]


if __name__ == "__main__":
    import boot  # this file's folder is on sys.path, as for any script

    boot.bind_package()
    sys.exit(main(sys.argv))
