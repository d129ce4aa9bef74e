"""Times one step of a user's script in a fresh process, with a candidate in the place of an operator or module, or without.

    python swapping.py REQUEST.json script.py [arguments]

Prints one JSON line, as a script that times itself does. The script's files are not touched: what is swapped is in this process.
"""

from __future__ import annotations

import functools
import json
import os
import statistics
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Tuple

ENOUGH_S, LEAST_STEPS, MOST_STEPS = 0.5, 3, 50



def main(argv: List[str]) -> int:
    from hotkernel_contract.user_script import UserScript

    with open(argv[1], encoding="utf-8") as file:
        request = json.load(file)
    out = os.dup(1)
    os.dup2(2, 1)  # what the script prints is not our line
    line: Dict[str, Any] = {"ms": 1e-9, "ok": False}
    script = UserScript(argv[2], argv[3:], request["step"])
    try:
        swap = Swap(request, script) if request["candidate"] else None
        line.update(timed(script, request, swap))
    except BaseException as error:  # noqa: BLE001 - whatever a script or a candidate raises is what is told
        traceback.print_exc()
        line["why"] = ("%s: %s" % (type(error).__name__, error))[:1000]
    with os.fdopen(out, "w", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
    return 0 if line["ok"] else 1


def timed(script: Any, request: Dict[str, Any], swap: Optional[Swap]) -> Dict[str, Any]:
    """Run it, and what the line says of it."""
    import torch

    from hotkernel_contract.step_output import held_against, named_output
    from hotkernel_contract.user_script import synchronise

    if swap:
        swap.install()
    step = script.load()
    returned, times = None, []
    if step:
        first = step()
        synchronise()
        counted = swap.counts() if swap else {}
        returned = {"first": first, "second": step()}  # what was right once may have been remembered
        synchronise()
        while not request["check"] and (len(times) < LEAST_STEPS or sum(times) < ENOUGH_S) and len(times) < MOST_STEPS:
            began = time.perf_counter()
            step()
            synchronise()
            times.append(time.perf_counter() - began)
    else:
        began = time.perf_counter()
        script.run()
        synchronise()
        times.append(time.perf_counter() - began)
        counted = swap.counts() if swap else {}
    output = named_output(script, request["output"], returned)
    wrong, worst = held_against(output, request) if output else (None, None)
    why = (swap.wrong if swap else None) or wrong
    device = "cuda" if torch.cuda.is_available() and torch.cuda.is_initialized() else "cpu"
    return {"ms": statistics.median(times or [1e-6]) * 1e3, "ok": why is None, **({"why": why} if why else {}), **counted,
            "worst_error": worst, "outputs": len(output), "device": device, "torch": torch.__version__}


class Swap:
    """A candidate in the place of the calls that its target is made of; every other call goes where it went."""

    def __init__(self, request: Dict[str, Any], script: Any) -> None:
        from hotkernel_contract.loading import load_file

        self.known, self.script, self.is_check = request["known"], script, request["check"]
        module = load_file(Path(request["candidate"]), "hotkernel_candidate")
        self.candidate = getattr(module, self.known["target"] + "_candidate", None) or getattr(module, "candidate", None)
        if self.candidate is None or hasattr(module, "setup"):
            raise LookupError("the candidate defines no %s_candidate" % self.known["target"] if self.candidate is None else
                              "a candidate with setup() cannot be swapped in: what it prepares has no place in the script")
        self.keys = {part["key"] for part in self.known["parts"]}
        self.plans: Dict[Any, Any] = {}
        self.trees: Dict[int, Tuple[Any, bool, List[Any]]] = {}
        self.is_inside = False
        self.swapped = self.left = 0
        self.wrong: Optional[str] = None

    def counts(self) -> Dict[str, int]:
        return {"swapped": self.swapped, "left": self.left}

    def install(self) -> None:
        """Put the candidate where the script will find it."""
        import torch

        if self.known["kind"] == "module":
            self.install_in_classes(torch)
            return
        for spelled in self.known["spellings"]:
            owner: Any = sys.modules.get("torch.nn.functional") if spelled.startswith("torch.nn.functional.") else \
                torch.Tensor if spelled.startswith("torch.Tensor.") else torch
            name = spelled.rpartition(".")[2]
            for each in {name, "__%s__" % name.strip("_")} if owner is torch.Tensor else {name}:
                if hasattr(owner, each):
                    setattr(owner, each, self.wrapped(getattr(owner, each)))

    def install_in_classes(self, torch: Any) -> None:
        """In the classes that are there, and in those that the script has yet to define."""
        from hotkernel_contract.capture import ModuleMarks

        name_of = ModuleMarks(self.script).name_of

        def swap_in(kind: Any) -> None:
            if name_of(kind) == self.known["row"]:
                kind.forward = self.wrapped_forward(kind.forward)

        def later(kind: Any, **_: Any) -> None:
            swap_in(kind)

        waiting = [torch.nn.Module]
        while waiting:
            kind = waiting.pop()
            swap_in(kind)
            waiting += kind.__subclasses__()
        torch.nn.Module.__init_subclass__ = classmethod(later)

    def wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        from hotkernel_contract.observed_call import Parameters

        parameters = Parameters.of(original)

        def swapped(*args: Any, **kwargs: Any) -> Any:
            return self.call(original, parameters, args, kwargs, None)

        return swapped

    def wrapped_forward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        from hotkernel_contract.observed_call import Parameters

        parameters = Parameters.of(original, skip=1)

        @functools.wraps(original)
        def forward(module: Any, *args: Any, **kwargs: Any) -> Any:
            return self.call(original, parameters, args, kwargs, module)

        return forward

    def call(self, original: Callable[..., Any], parameters: Any, args: Any, kwargs: Any, module: Any) -> Any:
        own = args if module is None else (module, *args)
        if self.is_inside:  # the candidate may call what it stands for
            return original(*own, **kwargs)
        self.is_inside = True
        try:
            given = self.given(parameters, args, kwargs, module)
            if given is None:
                self.left += 1
                return original(*own, **kwargs)
            self.swapped += 1
            if not self.is_check:
                return self.returned(self.candidate(*given[0], **given[1]), given)
            return self.checked(lambda: original(*own, **kwargs), given)
        finally:
            self.is_inside = False

    def given(self, parameters: Any, args: Any, kwargs: Any, module: Any) -> Optional[Tuple[List[Any], Dict[str, Any]]]:
        """What the candidate is called with; None for a call that it is not for."""
        import torch

        try:
            key = (id(module), tuple((x.shape, x.dtype, x.stride()) if isinstance(x, torch.Tensor) else x for x in args),
                   tuple((n, (x.shape, x.dtype, x.stride()) if isinstance(x, torch.Tensor) else x) for n, x in kwargs.items()))
            plan = self.plans.get(key)
            if plan is None:
                plan = self.plans[key] = self.planned(parameters, args, kwargs, module)
        except TypeError:  # a list among the arguments: no key
            plan = self.planned(parameters, args, kwargs, module)
        if not plan[0]:
            return None
        _, tensors, words, constants, is_nested = plan
        if is_nested:
            from hotkernel_contract.observed_call import observe

            return list(observe(args, kwargs, parameters).tensors.values()), dict(constants)
        places = [args[at] if isinstance(at, int) else kwargs[at] for at in tensors]
        named = {name: args[at] if isinstance(at, int) else kwargs[at] for name, at in words}
        if module is not None:
            places.append({name: table[leaf] for table, leaf, name in self.trees[id(module)][2]})
        return places, {**named, **constants}

    def planned(self, parameters: Any, args: Any, kwargs: Any, module: Any) -> Tuple[Any, ...]:
        """Whether it is a call of the target's, and where its tensors and constants are."""
        import torch

        from hotkernel_contract.observed_call import Unfit, observe

        try:
            call = observe(args, kwargs, parameters)
        except Unfit:
            return (False,)
        if call.key not in self.keys or (module is not None and not self.is_of_tree(module)):
            return (False,)
        by_name = call.by_name if module is not None else ()
        tensors = [place for name, place in call.places if name in call.tensors and name not in by_name]
        words = [(name, place) for name, place in call.places if name in by_name]
        constants = {name: getattr(torch, value[6:]) if isinstance(value, str) and value.startswith("torch.") else value
                     for name, value in call.constants.items()}
        return True, tensors, words, constants, any(not name for name, _ in call.places)

    def is_of_tree(self, module: Any) -> bool:
        """Whether this module is made as the target's is."""
        if id(module) not in self.trees:
            from hotkernel_contract.module_tree import shape_of, weights_of

            is_alike = shape_of(module, self.script) == self.known["tree"]
            self.trees[id(module)] = (module, is_alike, weights_of(module))
        return self.trees[id(module)][1]

    def returned(self, value: Any, given: Tuple[List[Any], Dict[str, Any]]) -> Any:
        """What the script gets; of a function in place that returns nothing, what was written."""
        return given[0][0] if value is None and self.known["writes"] else value

    def checked(self, original: Callable[[], Any], given: Tuple[List[Any], Dict[str, Any]]) -> Any:
        """The candidate's answer, held against the original's on the same tensors."""
        import torch

        from hotkernel_contract.step_output import difference, gather

        copies = [x.clone() if isinstance(x, torch.Tensor) else x for x in given[0]]
        value = self.candidate(*copies, **given[1])
        mine: Dict[str, Any] = {}
        gather(self.returned(value, (copies, given[1])), "output", mine)
        theirs: Dict[str, Any] = {}
        answer = original()
        gather(answer, "output", theirs)
        self.wrong = self.wrong or difference(mine, theirs, max([max(x.shape, default=1) for x in given[0]
                                                               if isinstance(x, torch.Tensor)]))
        return answer


if __name__ == "__main__":
    import boot  # this file's folder is on sys.path, as for any script

    boot.bind_package()
    sys.exit(main(sys.argv))
