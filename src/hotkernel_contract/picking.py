"""Runs one step of a user's script and writes down the real calls of one operator or class of modules; changes none of them.

    python picking.py ANSWER.json REQUEST.json script.py [arguments]

REQUEST: kind, name, step, tensors (a file for real tensors), keep (whether all of them are wanted). Times nothing.
"""

from __future__ import annotations

import json
import sys
import traceback
from typing import Any, Callable, Dict, List, Sequence, Tuple

KEPT_BYTES = 2_000_000_000  # of real tensors
# An operator whose function of torch has another name.
RENAMED = {"cross_entropy_loss": "cross_entropy", "nll_loss_nd": "nll_loss"}


def main(argv: List[str]) -> int:
    answer_path, request_path, script = argv[1:4]
    from hotkernel_contract.torch_trace import TRACEBACK_LIMIT, write
    from hotkernel_contract.user_script import UserScript

    with open(request_path, encoding="utf-8") as file:
        request = json.load(file)
    picker = Picker(request, UserScript(script, argv[4:], request["step"]))
    answer: Dict[str, Any] = {"error": None}
    try:
        picker.run()
        answer.update(picker.answer())
    except BaseException:  # noqa: BLE001 - whatever a script raises is what is told
        answer["error"] = traceback.format_exc()[-TRACEBACK_LIMIT:]
    write(answer_path, answer)
    return 0


class Picker:
    """The calls that were seen, those of one kind as one."""

    def __init__(self, request: Dict[str, Any], script: Any) -> None:
        self.request, self.script = request, script
        self.outer: Dict[str, Dict[str, Any]] = {}
        self.inner: Dict[str, Dict[str, Any]] = {}  # operators that no function of torch's calls by name
        self.unfit: Dict[str, int] = {}
        self.kept: Dict[str, Any] = {}
        self.trees: Dict[int, Tuple[Any, str]] = {}
        self.is_busy = False

    def run(self) -> None:
        from hotkernel_contract.user_script import synchronise

        step = self.script.load()
        if step:
            step()  # the first call may build the model, which is not what is looked for
        undo = self.watch_modules() if self.request["kind"] == "module" else self.watch_operators()
        try:
            if step:
                step()
            else:
                self.script.run()
        finally:
            undo()
        synchronise()

    def watch_modules(self) -> Callable[[], None]:
        import torch

        from hotkernel_contract.capture import ModuleMarks
        from hotkernel_contract.observed_call import Parameters

        original, name_of = torch.nn.Module.__call__, ModuleMarks(self.script).name_of

        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            run = lambda: original(module, *args, **kwargs)  # noqa: E731
            if name_of(type(module)) != self.request["name"]:
                return run()
            return self.note(self.outer, "", args, kwargs, Parameters.of(module.forward), run, module)

        torch.nn.Module.__call__ = call  # type: ignore[method-assign]
        return lambda: setattr(torch.nn.Module, "__call__", original)

    def watch_operators(self) -> Callable[[], None]:
        """Functions of torch by their names; below them, the operators themselves."""
        from torch.overrides import TorchFunctionMode, resolve_name
        from torch.utils._python_dispatch import TorchDispatchMode

        from hotkernel_contract.observed_call import Parameters

        picker, wanted = self, self.request["name"]
        base = RENAMED.get(wanted.rpartition("::")[2], wanted.rpartition("::")[2])

        class Functions(TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None) -> Any:
                run = lambda: func(*args, **(kwargs or {}))  # noqa: E731
                name = getattr(func, "__name__", "")
                plain = name.strip("_") if name.startswith("__") else name
                if plain != base:
                    return run()
                return picker.note(picker.outer, resolve_name(func) or "", args, kwargs or {}, Parameters.of(func), run)

        class Operators(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Tuple[Any, ...] = (), kwargs: Any = None) -> Any:
                run = lambda: func(*args, **(kwargs or {}))  # noqa: E731
                if func._schema.name != wanted:
                    return run()
                return picker.note(picker.inner, "torch.ops.%s" % func, args, kwargs or {}, Parameters.of(func), run,
                                   schema=func._schema)

        modes = [Functions(), Operators()]
        for mode in modes:
            mode.__enter__()
        return lambda: [mode.__exit__(None, None, None) for mode in reversed(modes)] and None

    def note(self, into: Dict[str, Dict[str, Any]], spelled: str, args: Any, kwargs: Any, parameters: Any,
             run: Callable[[], Any], module: Any = None, schema: Any = None) -> Any:
        """Run the call, and keep what it was."""
        from hotkernel_contract.observed_call import Unfit, observe

        if self.is_busy:  # what is looked at is a tensor too, and asks torch
            return run()
        self.is_busy = True
        try:
            try:
                call = observe(args, kwargs, parameters)
                key = "%s | %s" % (call.key, self.tree_of(module))
                row = into.get(key) or self.first(into, call, module, spelled)
            except Unfit as error:
                self.unfit[str(error)] = self.unfit.get(str(error), 0) + 1
                return run()
            versions = {name: _version(x) for name, x in call.tensors.items()}
            self.is_busy = module is not None
            output = run()
            self.is_busy = True
            written = written_by(schema, parameters.names, call) if schema else [
                name for name, x in call.tensors.items() if _version(x) != versions[name]]
            row["calls"] += 1
            row["writes"] = sorted({*row["writes"], *written})
            row["spellings"] = sorted({*row["spellings"], spelled})
            row["grad"] = row["grad"] or _has_gradient(output)
            into[key] = row
            return output
        finally:
            self.is_busy = False

    def tree_of(self, module: Any) -> str:
        """A module's kind, nothing for a function; worked out once a module."""
        from hotkernel_contract.module_tree import shape_of

        if module is None:
            return ""
        if id(module) not in self.trees:
            self.trees[id(module)] = module, shape_of(module, self.script)
        return self.trees[id(module)][1]

    def first(self, into: Dict[str, Dict[str, Any]], call: Any, module: Any, spelled: str) -> Dict[str, Any]:
        """The row of a kind of call that comes for the first time; keeps its tensors before the call can change them."""
        from hotkernel_contract.capture import described
        from hotkernel_contract.module_tree import lines_of
        from hotkernel_contract.observed_call import memory_of, must_be_kept
        from hotkernel_contract.observed_call import spelled as input_text

        devices = {x.device.type for x in call.tensors.values()}
        if len(devices) > 1:
            from hotkernel_contract.observed_call import Unfit

            raise Unfit("its inputs lie on %s" % " and ".join(sorted(devices)))
        number = "%s%d" % ("o" if into is self.outer else "i", len(into))
        inputs: Dict[str, Any] = {}
        for name, x in call.tensors.items():
            is_kept = name != "x" and (self.request["keep"] or must_be_kept(x))
            if is_kept:
                self.kept["%s.%s" % (number, name)] = x.detach().cpu().contiguous().clone()
            inputs[name] = {"spec": input_text(x), "described": " ".join(described(x)), "kept": is_kept,
                            "streams": not _is_weight(x)}
        buffers: Dict[str, Any] = {}
        lines = lines_of(module, self.script, buffers) if module is not None else []
        self.kept.update({"%s.%s" % (number, name): x for name, x in buffers.items()})
        return {"number": number, "key": call.key, "text": call.text, "inputs": inputs, "constants": call.constants,
                "by_name": list(call.by_name), "lines": lines, "tree": self.tree_of(module),
                "calls": 0, "writes": [], "spellings": [spelled], "grad": False, "device": devices.pop(),
                "notes": list(memory_of(call.tensors)), "is_training": bool(module is not None and module.training)}

    def answer(self) -> Dict[str, Any]:
        """What was seen; saves the tensors that are wanted."""
        import torch

        rows = list((self.outer or self.inner).values())
        numbers = tuple(row["number"] + "." for row in rows)
        kept = {name: x for name, x in self.kept.items() if name.startswith(numbers)}
        if sum(x.numel() * x.element_size() for x in kept.values()) > KEPT_BYTES:
            raise MemoryError("the real tensors are more than %.0f GB; make the target without them" % (KEPT_BYTES / 1e9))
        if kept:
            torch.save(kept, self.request["tensors"])
        return {"calls": rows, "unfit": self.unfit, "kept": sorted(kept), "is_inner": not self.outer and bool(self.inner)}


def written_by(schema: Any, names: Sequence[str], call: Any) -> List[str]:
    """The inputs that an operator says it writes; down there no version counts."""
    written = {at for at, each in enumerate(schema.arguments) if each.alias_info is not None and each.alias_info.is_write}
    return [name for name, place in call.places if (place if isinstance(place, int) else names.index(place)) in written]


def _version(x: Any) -> int:
    try:
        return int(x._version)
    except RuntimeError:  # of inference mode, which counts none
        return 0


def _is_weight(x: Any) -> bool:
    import torch

    return isinstance(x, torch.nn.Parameter) or isinstance(x._base, torch.nn.Parameter)


def _has_gradient(output: Any) -> bool:
    if isinstance(output, (list, tuple)):
        return any(map(_has_gradient, output))
    return bool(getattr(output, "requires_grad", False))


if __name__ == "__main__":
    import boot  # this file's folder is on sys.path, as for any script

    boot.bind_package()
    sys.exit(main(sys.argv))
