"""What a target is: the function to beat, its inputs, reference and work; refuses what makes no sense, times nothing."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence, Tuple, Union

import torch

from hotkernel_contract.call import COTANGENT, WEIGHT, WEIGHTS, Call, ModuleCall, Outputs, plan_places, weight_input
from hotkernel_contract.loading import beside_caller, load_tensor
from hotkernel_contract.spec import FILE, NAME, Input, TargetError, dtype_named

_OF_A_CASE = ("inputs", "dtype", "constants", "rtol", "atol", "steps", "max_error_ratio", "reduction", "flops", "min_bytes",
              "mixture")
MOST_STEPS = 4  # more would take an answer of two bits less for right


@dataclass(frozen=True)
class Target:
    """The function to beat and the whole contract it is judged by. docs/targets.md tells each part with an example.

    name: letters, digits, `_`. function: the baseline, called with the inputs in order: a function, a callable object, an
    nn.Module (class or object) or a method of one; a module's weights are one more argument, a dict by their names, random.
    inputs: name -> `shape[:dtype][<high][:draw][:layout]` (spec.py) or `file=weights.pt#key`, in call order; with `derive`,
    the raw tensors it is given, and `takes` names what it returns, in call order. constants: other arguments, by name.
    keywords: inputs that go by name. writes: inputs that the function changes; they are outputs. static: shared inputs (or
    `weights`) that stay the same, for which a side may define `setup`. backward: gradients of all float inputs, or of these,
    are outputs too. baselines: more functions to beat, by name; the fastest is the one. cases: name -> what is other there.
    rotate: the inputs that stream through memory and are fresh for every call (default: the first). reference: computes the
    right answer from inputs widened to fp32 or fp64 (default: the baseline itself; required with `derive`, where it gets the
    derived inputs as they are). rtol, atol: by element, absolute and relative; None means the dtype's (docs/integrity.md).
    steps: how far off an integer that was rounded may be. reduction: how many terms an element sums, for fp32 and fp64.
    max_error_ratio: how many times the baseline's RMS error a candidate may have. flops: per call, for the roofline. min_bytes:
    what one call must read and write. mixture: "full", or "normal" for functions that the extreme rows break. reuses_output:
    the function hands out static buffers. iters, seed: of the plain line alone.
    """

    name: str
    function: Callable[..., Any]
    inputs: Dict[str, str]
    dtype: str = "bf16"
    rotate: Sequence[str] = ()
    reference: Optional[Callable[..., Any]] = None
    derive: Optional[Callable[[Dict[str, torch.Tensor]], Dict[str, torch.Tensor]]] = None
    takes: Sequence[str] = ()
    constants: Dict[str, Any] = field(default_factory=dict)
    keywords: Sequence[str] = ()
    writes: Sequence[str] = ()
    static: Sequence[str] = ()
    backward: Union[bool, Sequence[str]] = False
    baselines: Dict[str, Callable[..., Any]] = field(default_factory=dict)
    cases: Dict[str, Dict[str, Any]] = field(default_factory=dict)
    rtol: Optional[float] = None
    atol: Optional[float] = None
    steps: int = 0
    reduction: Optional[int] = None
    max_error_ratio: Optional[float] = None
    flops: Optional[int] = None
    min_bytes: Optional[int] = None
    mixture: str = "full"
    reuses_output: bool = False
    device: str = ""
    iters: int = 50
    seed: int = 0
    reference_name: str = ""
    case: str = ""
    raws: Dict[str, Input] = field(init=False, repr=False)
    call: Call = field(init=False, repr=False)
    files: Tuple[Path, ...] = field(init=False, repr=False)
    small: Tuple[str, ...] = field(init=False, repr=False)  # inputs that do not stream, and that each call has its own of
    module_kind: str = field(init=False, repr=False)  # `class` or `object` of an nn.Module, empty for a function

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise TargetError("target name %r: use letters, digits and _" % self.name)
        default = dtype_named(self.dtype)
        for name in ("takes", "keywords", "writes", "static"):
            value = getattr(self, name)
            self._set(name, (value,) if isinstance(value, str) else tuple(value))
        self._set("files", tuple(beside_caller(spec) for spec in self.inputs.values() if spec.startswith(FILE)))
        self._set("raws", {name: _read_input(name, spec, default) for name, spec in self.inputs.items()})
        if not self.raws:
            raise TargetError("a target needs at least one input")
        self._take_function(default)
        if self.derive and not (self.takes and self.reference):
            raise TargetError("derive needs `takes` (the names it returns, in call order) and a reference")
        drawn = [name for name in self.arguments if name not in self.raws or self.raws[name].draw != "file"]
        self._set("rotate", tuple(dict.fromkeys((*(self.rotate or drawn[:1]), *self.writes))))
        self._set("small", ())
        if not drawn:
            raise TargetError("every input comes from a file: at least one must be drawn")
        self._check_names()
        if self.mixture not in ("full", "normal"):
            raise TargetError("mixture is 'full' or 'normal', not %r" % self.mixture)
        if self.device not in ("", "cuda", "cpu"):
            raise TargetError("device is 'cuda' or 'cpu', not %r" % self.device)
        self._check_numbers()
        self._plan_call()
        if not self.case:
            for name in self.cases:
                self.of_case(name)

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _take_function(self, default: torch.dtype) -> None:
        """The function as what is called; a module's weights become raw tensors."""
        function = self.function
        self._set("module_kind", "")
        if isinstance(function, type) and issubclass(function, torch.nn.Module):
            function = function(**self.constants)
            self._set("constants", {})
            self._set("module_kind", "class")
        function = ModuleCall.of(function)
        if isinstance(function, ModuleCall):
            self._set("module_kind", self.module_kind or "object")
        for given in (function, *self.baselines.values(), *([self.reference] if self.reference else [])):
            if not callable(given):
                raise TargetError("the function to beat is no function: %r" % (given,))
        self._set("function", function)
        if isinstance(function, ModuleCall):
            self._set("baselines", {name: ModuleCall.of(each) for name, each in self.baselines.items()})
            for name, x in function.weights().items():
                self.raws[WEIGHT + name] = weight_input(WEIGHT + name, x.to(default), function.is_parameter(name))

    def _check_names(self) -> None:
        known = {*self.arguments, *([WEIGHTS] if self.has_weights else [])}
        for what in ("writes", "keywords", "static", "rotate"):
            unknown = set(getattr(self, what)) - known
            if unknown:
                raise TargetError("%s names %s, which is no input of the call; inputs: %s"
                                  % (what, ", ".join(sorted(unknown)), ", ".join(self.arguments)))
        both = set(self.static) & set(self.rotate)
        if both:
            raise TargetError("static and rotate both name %s: what streams is not the same for all calls" % ", ".join(both))
        if self.backward and self.writes:
            raise TargetError("backward and writes do not go together: gradients are of what a call returns")
        fixed = [name for name in self.rotate if name in self.raws and self.raws[name].draw == "file"]
        if fixed:
            raise TargetError("%s comes from a file and cannot be fresh for every call" % ", ".join(fixed))
        clash = set(self.constants) & set(self.arguments)
        if clash:
            raise TargetError("constants names %s, which is an input" % ", ".join(sorted(clash)))

    def _check_numbers(self) -> None:
        for name in ("rtol", "atol", "max_error_ratio", "flops", "min_bytes", "reduction"):
            value = getattr(self, name)
            if value is not None and (not math.isfinite(value) or value < 0):
                raise TargetError("%s=%r must be a number from 0 up" % (name, value))
        if self.steps not in range(MOST_STEPS + 1):
            raise TargetError("steps=%r must be a whole number from 0 to %d" % (self.steps, MOST_STEPS))
        if self.iters < 1:
            raise TargetError("iters=%d must be at least 1" % self.iters)

    def _plan_call(self) -> None:
        positional, keywords = plan_places(self.function, self.arguments, self.keywords, self.constants)
        self._set("call", Call(positional, keywords, dict(self.constants), self.writes, (), (), self.static, self.has_weights))
        self.call.to_plain()  # refuses constants that no wire carries

    @property
    def arguments(self) -> Tuple[str, ...]:
        """Names of what the function is called with, in order; a module's weights come after them."""
        return tuple(self.takes) if self.derive else tuple(self.inputs)

    @property
    def has_weights(self) -> bool:
        return isinstance(self.function, ModuleCall)

    @property
    def tensors(self) -> Tuple[str, ...]:
        """Names of every tensor of a call: arguments, weights, the gradients of outputs."""
        return (*self.arguments, *(name for name in self.raws if name.startswith((WEIGHT, COTANGENT))))

    @property
    def per_call(self) -> Tuple[str, ...]:
        """Tensors that every call has its own of; the others are shared by the calls of a batch."""
        return (*self.rotate, *self.small)

    @property
    def fresh_raws(self) -> Tuple[str, ...]:
        """Raw tensors drawn anew for every call."""
        return tuple(name for name, raw in self.raws.items()
                     if (name in self.per_call or name not in self.tensors) and raw.draw != "file")

    def keep_small(self, names: Sequence[str]) -> None:
        """Let each call have these of its own: too small to be felt, too telling to be shared."""
        self._set("small", tuple(names))

    @property
    def static_tensors(self) -> Tuple[str, ...]:
        return tuple(name for name in self.tensors
                     if name in self.static or (name.startswith(WEIGHT) and WEIGHTS in self.static))

    def of_case(self, name: str) -> Target:
        """This target as it is in one of its cases."""
        if name not in self.cases:
            raise TargetError("there is no case %r; cases: %s" % (name, ", ".join(self.cases)))
        changes = dict(self.cases[name])
        unknown = set(changes) - set(_OF_A_CASE)
        if unknown:
            raise TargetError("case %s: it cannot change %s, only %s" % (name, ", ".join(sorted(unknown)), ", ".join(_OF_A_CASE)))
        for part in ("inputs", "constants"):
            changes[part] = {**getattr(self, part), **changes.get(part, {})}
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.init}
        return Target(**{**own, **changes, "case": name})

    def with_function(self, name: str) -> Target:
        """This target with another of its baselines as the function; the reference stays what it is."""
        if not name:
            return self
        made = replace(self, function=self.baselines[name], reference=self.reference or self.function)
        for part in ("raws", "rotate", "small", "call"):
            made._set(part, getattr(self, part))
        return made

    def settle(self, device: str) -> Target:
        """Find what only a run can tell: the gradients of outputs that a backward pass is given. Returns itself."""
        self.settle_module(device)
        if self.backward and not self.call.gradients:
            from hotkernel_contract.inputs import find_gradients

            find_gradients(self, device)
        return self

    def settle_module(self, device: str) -> Target:
        """Have what a module holds beside its weights where they will be. Returns itself."""
        for function in (self.function, *self.baselines.values()):
            if isinstance(function, ModuleCall):
                function.module.to(device)
        return self

    def call_inputs(self, raw: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        """The tensors of a call, by name, from raw tensors; raises TargetError when derive does not deliver."""
        if not self.derive:
            return {name: raw[name] for name in self.tensors}
        derived = self.derive({name: x for name, x in raw.items() if name in self.inputs})
        missing = [name for name in self.arguments if name not in derived]
        if missing:
            raise TargetError("derive does not return %s" % ", ".join(missing))
        return {name: derived[name] if name in derived else raw[name] for name in self.tensors}

    def run(self, inputs: Dict[str, torch.Tensor], function: Optional[Callable[..., Any]] = None) -> Outputs:
        """One call of `function` (default: the baseline) on these very tensors: every output by name, written inputs last."""
        values = self.call.values(inputs)
        with torch.no_grad():
            outputs = self.call.outputs(self.call.runner(function or self.function)(self.call.arguments(values)), values)
        return {**outputs, **{name: inputs[name] for name in self.writes}}

    def widened(self, inputs: Dict[str, torch.Tensor], wide: torch.dtype) -> Dict[str, torch.Tensor]:
        """Copies of inputs as the reference takes them: floats in `wide`, derived ones as they are."""
        return {name: x.to(wide, copy=True) if x.dtype.is_floating_point and not self.derive else x.clone()
                for name, x in inputs.items()}

    def expected(self, inputs: Dict[str, torch.Tensor], wide: torch.dtype) -> Outputs:
        """The right answers for these inputs, computed in `wide` (fp32 or fp64)."""
        return self.answers(self.widened(inputs, wide), wide)

    def answers(self, widened: Dict[str, torch.Tensor], wide: torch.dtype) -> Outputs:
        """The right answers for inputs that are widened already, and may be written."""
        try:
            answers = self.run(widened, self.reference)
        except TargetError as error:
            raise TargetError("the reference: %s" % error) from None
        return {name: y.to(wide) if y.dtype.is_floating_point else y for name, y in answers.items()}

    def pick_device(self) -> str:
        """`cuda` where a card is and the target does not say otherwise, else `cpu`."""
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

    def main(self, function: Optional[Callable[..., Any]] = None, impl: str = "") -> None:
        """Check `function` (default: the baseline), time it by its own clock, print the bench line, exit 0 if right."""
        from hotkernel_contract.line import time_and_print

        mine = impl == "baseline" or function is None  # a module is not called as it is written
        sys.exit(0 if time_and_print(self, self.function if mine else function, impl or "baseline") else 1)


def _read_input(name: str, spec: str, default: torch.dtype) -> Input:
    if not spec.startswith(FILE):
        return Input.parse(name, spec, default)
    x = load_tensor(beside_caller(spec), spec.partition("#")[2])
    return Input(name, tuple(x.shape), x.dtype, draw="file", value=x)


def wide_for(*dtypes: torch.dtype) -> torch.dtype:
    """The precision of the reference: fp32 carries 16 bits more than bf16 and fp16; fp32 needs fp64."""
    return torch.float64 if {torch.float32, torch.float64} & set(dtypes) else torch.float32


def find_target(module: Any) -> Target:
    """The one Target that a baseline file defines; raises TargetError."""
    found = [value for value in vars(module).values() if isinstance(value, Target)]
    if not found:
        raise TargetError("%s defines no hotkernel Target" % getattr(module, "__file__", module))
    return found[0]

