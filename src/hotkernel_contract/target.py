"""What a target is: the function to beat, its inputs, reference and work; refuses what makes no sense, times nothing."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import math
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import torch

_DTYPES = {
    "bf16": torch.bfloat16, "bfloat16": torch.bfloat16, "fp16": torch.float16, "half": torch.float16,
    "float16": torch.float16, "fp32": torch.float32, "float": torch.float32, "float32": torch.float32,
    "fp64": torch.float64, "double": torch.float64, "float64": torch.float64,
    "int64": torch.int64, "long": torch.int64, "int32": torch.int32, "int": torch.int32, "int16": torch.int16,
    "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool,
}
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPEC = re.compile(r"(?P<shape>\d+(?:[x,*]\d+)*)(?::(?P<dtype>[A-Za-z0-9_]+))?(?:<(?P<high>\d+))?")


class TargetError(ValueError):
    """A target that makes no sense, with what to do about it."""


def dtype_named(name: str) -> torch.dtype:
    """The torch dtype that `name` means (bf16, fp16, fp32, fp64, int64 …); raises TargetError."""
    try:
        return _DTYPES[name.lower().replace("torch.", "")]
    except KeyError:
        raise TargetError("unknown dtype %r; use one of %s" % (name, ", ".join(sorted(_DTYPES)))) from None


@dataclass(frozen=True)
class Input:
    """One raw tensor: its shape, its dtype, and for integers the range [0, high)."""

    name: str
    shape: Tuple[int, ...]
    dtype: torch.dtype
    high: Optional[int] = None

    @classmethod
    def parse(cls, name: str, spec: str, default: torch.dtype) -> Input:
        """`4096x8192`, `4096x8192:fp32` or `4096:int64<32000`; raises TargetError."""
        match = _SPEC.fullmatch(spec.replace(" ", ""))
        if not _NAME.fullmatch(name):
            raise TargetError("%r is no name for an input; use letters, digits and _" % name)
        if not match:
            raise TargetError("input %s: cannot read %r; write it like 4096x8192, 8192:fp32 or 4096:int64<32000"
                              % (name, spec))
        shape = tuple(int(part) for part in re.split("[x,*]", match["shape"]))
        if min(shape) < 1:
            raise TargetError("input %s: every dimension of %r must be at least 1" % (name, spec))
        dtype = dtype_named(match["dtype"]) if match["dtype"] else default
        high = int(match["high"]) if match["high"] else None
        if high is not None and (dtype.is_floating_point or high < 1):
            raise TargetError("input %s: a range (<%d) is for integers, and starts above 0" % (name, high))
        if high is None and not dtype.is_floating_point and dtype is not torch.bool:
            word = match["dtype"] or str(dtype).replace("torch.", "")
            raise TargetError("input %s: integers need a range, like %s:%s<100" % (name, match["shape"], word))
        if high is not None and dtype is not torch.bool and high > min(torch.iinfo(dtype).max + 1, 2**63 - 1):
            raise TargetError("input %s: %s holds no number up to %d" % (name, dtype, high - 1))
        return cls(name, shape, dtype, high)

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * torch.empty(0, dtype=self.dtype).element_size()


@dataclass(frozen=True)
class Target:
    """The function to beat and the whole contract it is judged by.

    name: letters, digits, `_`. function: the baseline, called with the inputs in order. inputs: name -> `shape[:dtype][<high]`
    in call order; with `derive`, the raw tensors it is given, and `takes` names what it returns, in call order.
    rotate: the inputs that stream through memory and are fresh for every call (default: the first). reference: computes the
    right answer from inputs widened to fp32 or fp64 (default: the baseline itself; required with `derive`, where it gets the
    derived inputs as they are). rtol, atol: by element, absolute and relative; None means the dtype's (docs/integrity.md).
    max_error_ratio: how many times the baseline's RMS error a candidate may have. flops: per call, for the roofline.
    min_bytes: what one call must read and write. mixture: "full", or "normal" for functions that the extreme rows break.
    reuses_output: the function hands out static buffers. iters, seed: of the plain line alone.
    """

    name: str
    function: Callable[..., torch.Tensor]
    inputs: Dict[str, str]
    dtype: str = "bf16"
    rotate: Sequence[str] = ()
    reference: Optional[Callable[..., torch.Tensor]] = None
    derive: Optional[Callable[[Dict[str, torch.Tensor]], Dict[str, torch.Tensor]]] = None
    takes: Sequence[str] = ()
    rtol: Optional[float] = None
    atol: Optional[float] = None
    max_error_ratio: Optional[float] = None
    flops: Optional[int] = None
    min_bytes: Optional[int] = None
    mixture: str = "full"
    reuses_output: bool = False
    device: str = ""
    iters: int = 50
    seed: int = 0
    reference_name: str = ""
    raws: Dict[str, Input] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise TargetError("target name %r: use letters, digits and _" % self.name)
        default = dtype_named(self.dtype)
        object.__setattr__(self, "raws", {name: Input.parse(name, spec, default) for name, spec in self.inputs.items()})
        if not self.raws:
            raise TargetError("a target needs at least one input")
        if not callable(self.function):
            raise TargetError("the function to beat is no function: %r" % (self.function,))
        if self.derive and not (self.takes and self.reference):
            raise TargetError("derive needs `takes` (the names it returns, in call order) and a reference")
        object.__setattr__(self, "rotate", tuple(self.rotate) or self.arguments[:1])
        unknown = set(self.rotate) - set(self.arguments)
        if unknown:
            raise TargetError("rotate names %s, which is no input of the call; inputs: %s"
                              % (", ".join(sorted(unknown)), ", ".join(self.arguments)))
        if self.mixture not in ("full", "normal"):
            raise TargetError("mixture is 'full' or 'normal', not %r" % self.mixture)
        if self.device not in ("", "cuda", "cpu"):
            raise TargetError("device is 'cuda' or 'cpu', not %r" % self.device)
        self._check_numbers()

    def _check_numbers(self) -> None:
        for name in ("rtol", "atol", "max_error_ratio", "flops", "min_bytes"):
            value = getattr(self, name)
            if value is not None and (not math.isfinite(value) or value < 0):
                raise TargetError("%s=%r must be a number from 0 up" % (name, value))
        if self.iters < 1:
            raise TargetError("iters=%d must be at least 1" % self.iters)

    @property
    def arguments(self) -> Tuple[str, ...]:
        """Names of what the function is called with, in order."""
        return tuple(self.takes) if self.derive else tuple(self.inputs)

    @property
    def fresh_raws(self) -> Tuple[str, ...]:
        """Raw tensors drawn anew for every call; the others are shared by the calls of a batch."""
        return tuple(name for name in self.raws if name in self.rotate or name not in self.arguments)

    def call_inputs(self, raw: Dict[str, torch.Tensor]) -> Dict[str, torch.Tensor]:
        """What the function is called with, by name, from raw tensors; raises TargetError when derive does not deliver."""
        if not self.derive:
            return {name: raw[name] for name in self.arguments}
        derived = self.derive(dict(raw))
        missing = [name for name in self.arguments if name not in derived]
        if missing:
            raise TargetError("derive does not return %s" % ", ".join(missing))
        return {name: derived[name] for name in self.arguments}

    def expected(self, inputs: Sequence[torch.Tensor], wide: torch.dtype) -> torch.Tensor:
        """The right answer for these inputs, computed in `wide` (fp32 or fp64)."""
        with torch.no_grad():
            if self.derive:
                answer = self.reference(*inputs)  # type: ignore[misc]
            else:
                widened = [x.to(wide) if x.dtype.is_floating_point else x.clone() for x in inputs]
                answer = (self.reference or self.function)(*widened)
        if not isinstance(answer, torch.Tensor):
            raise TargetError("the reference returned %s, not a tensor" % type(answer).__name__)
        return answer.to(wide) if answer.dtype.is_floating_point else answer

    def pick_device(self) -> str:
        """`cuda` where a card is and the target does not say otherwise, else `cpu`."""
        return self.device or ("cuda" if torch.cuda.is_available() else "cpu")

    def main(self, function: Optional[Callable[..., torch.Tensor]] = None, impl: str = "") -> None:
        """Check `function` (default: the baseline), time it by its own clock, print the bench line, exit 0 if right."""
        from hotkernel_contract.line import time_and_print

        sys.exit(0 if time_and_print(self, function or self.function, impl or "baseline") else 1)


def wide_for(dtype: torch.dtype) -> torch.dtype:
    """The precision of the reference: fp32 carries 16 bits more than bf16 and fp16; fp32 needs fp64."""
    return torch.float64 if dtype in (torch.float32, torch.float64) else torch.float32


def load_function(spec: str, beside: str = "") -> Callable[..., Any]:
    """`torch.nn.functional:gelu`, or `./mykernels.py:fused` with a path relative to the folder of the file `beside`.

    Raises TargetError that says what is missing.
    """
    module_name, _, name = spec.rpartition(":")
    if not module_name or not name:
        raise TargetError("%r must be module:function or file.py:function" % spec)
    if module_name.endswith(".py"):
        path = Path(module_name)
        if not path.is_absolute() and beside:
            path = Path(beside).resolve().parent / path
        module = load_file(path)
    else:
        try:
            module = importlib.import_module(module_name)
        except ImportError as error:
            raise TargetError("cannot import %s: %s" % (module_name, error)) from error
    found = module
    for part in name.split("."):
        if not hasattr(found, part):
            names = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
            raise TargetError("%s has no %r; it has %s" % (module_name, name, ", ".join(names[:20]) or "no function"))
        found = getattr(found, part)
    if not callable(found):
        raise TargetError("%s is no function" % spec)
    return found


def load_file(path: Path, name: str = "") -> Any:
    """The module that a file is, under a name that is not `__main__`; its folder comes first on sys.path."""
    path = path.resolve()
    if not path.is_file():
        raise TargetError("no such file: %s" % path)
    # one name for one file: two files of one stem must not meet in sys.modules, and a re-import must find the first
    name = name or "hotkernel_%s_%s" % (re.sub(r"\W", "_", path.stem), hashlib.sha256(str(path).encode()).hexdigest()[:8])
    if name in sys.modules:
        return sys.modules[name]
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)  # type: ignore[union-attr]
    except BaseException:
        del sys.modules[name]
        raise
    return module


def find_target(module: Any) -> Target:
    """The one Target that a baseline file defines; raises TargetError."""
    found = [value for value in vars(module).values() if isinstance(value, Target)]
    if not found:
        raise TargetError("%s defines no hotkernel Target" % getattr(module, "__file__", module))
    return found[0]


def parameters_of(function: Callable[..., Any]) -> Optional[List[str]]:
    """Names of the parameters, or None for a function that does not say (built-ins)."""
    try:
        return list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return None
