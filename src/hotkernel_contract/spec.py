"""How one input of a target is written: shape, dtype, range, how it is drawn, how it lies in memory; draws nothing."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any, Dict, Optional, Tuple

import torch

_DTYPES = {
    "bf16": torch.bfloat16, "bfloat16": torch.bfloat16, "fp16": torch.float16, "half": torch.float16,
    "float16": torch.float16, "fp32": torch.float32, "float": torch.float32, "float32": torch.float32,
    "fp64": torch.float64, "double": torch.float64, "float64": torch.float64,
    "int64": torch.int64, "long": torch.int64, "int32": torch.int32, "int": torch.int32, "int16": torch.int16,
    "int8": torch.int8, "uint8": torch.uint8, "bool": torch.bool,
}
FP8 = {name: getattr(torch, name) for name in ("float8_e4m3fn", "float8_e5m2") if hasattr(torch, name)}  # torch 2.1
_DTYPES.update({short: FP8[name] for name in FP8 for short in (name, "fp8_" + name[7:11])})
# Draws beside the mixture (floats), uniform in the range (integers) and even odds (booleans), and what each is for.
DRAWS: Dict[str, str] = {
    "perm": "a permutation along the last dimension: of 0 … n-1, or of n distinct numbers for floats",
    "sorted": "sorted along the last dimension", "onehot": "one 1 in each row, zeros elsewhere",
    "positive": "floats above zero", "unit": "floats in (0, 1)", "share": "share=0.3: so much of a mask is true",
    "lengths": "lengths=4096: lengths that sum to it", "offsets": "offsets=4096: from 0 up to it, never falling",
}
_NUMBERED = ("share", "lengths", "offsets")
_OF_FLOATS, _OF_INTEGERS, _RANGELESS = ("positive", "unit"), ("lengths", "offsets"), ("perm", "onehot", "lengths", "offsets")
LAYOUTS = ("transposed", "sliced")  # the last two dimensions swapped in memory; rows that are parts of longer ones
ORDER = "order="  # order=0213: the dimensions as they follow each other in memory, the outermost first
SLICE_GAP = 16  # elements between the rows of a sliced input: still aligned
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HEAD = re.compile(r"(?P<shape>scalar|\d+(?:[x,*]\d+)*)(?::(?P<dtype>[A-Za-z0-9_]+)(?![\w=]))?"
                   r"(?:<(?P<high>\d+))?(?P<rest>(?::[\w=.]+)*)")
FILE = "file="


class TargetError(ValueError):
    """A target that makes no sense, with what to do about it."""


def dtype_named(name: str) -> torch.dtype:
    """The torch dtype that `name` means (bf16, fp16, fp32, fp64, fp8_e4m3, int64 …); raises TargetError."""
    try:
        return _DTYPES[name.lower().replace("torch.", "")]
    except KeyError:
        raise TargetError("unknown dtype %r; use one of %s" % (name, ", ".join(sorted(_DTYPES)))) from None


@dataclass(frozen=True)
class Input:
    """One raw tensor: its shape, its dtype, for integers the range [0, high), how it is drawn and how it lies in memory."""

    name: str
    shape: Tuple[int, ...]
    dtype: torch.dtype
    high: Optional[int] = None
    draw: str = ""  # a word of DRAWS; `normal`, `weight`, `kept`: what a module or a gradient brings along; `file`
    value: Any = None  # what the word needs: a share, a total, a weight's (mean, spread, is never negative), a tensor
    layout: str = ""

    @classmethod
    def parse(cls, name: str, spec: str, default: torch.dtype) -> Input:
        """`4096x8192`, `8192:fp32`, `4096:int64<32000`, `64x64:bool:share=0.3`, `64x32:transposed`; raises TargetError."""
        if not NAME.fullmatch(name):
            raise TargetError("%r is no name for an input; use letters, digits and _" % name)
        match = _HEAD.fullmatch(spec.replace(" ", ""))
        if not match:
            raise TargetError("input %s: cannot read %r; write it like 4096x8192, 8192:fp32, 4096:int64<32000, "
                              "64x64:bool:share=0.3 or 64x32:fp16:transposed" % (name, spec))
        shape = () if match["shape"] == "scalar" else tuple(int(part) for part in re.split("[x,*]", match["shape"]))
        if shape and min(shape) < 1:
            raise TargetError("input %s: every dimension of %r must be at least 1" % (name, spec))
        words = [word for word in match["rest"].split(":") if word]
        dtype_word = match["dtype"]
        if dtype_word in DRAWS or dtype_word in LAYOUTS:
            words, dtype_word = [dtype_word, *words], None
        dtype = dtype_named(dtype_word) if dtype_word else default
        made = cls(name, shape, dtype, int(match["high"]) if match["high"] else None, *_read_words(name, spec, words))
        made._refuse_nonsense(dtype_word or str(dtype).replace("torch.", ""))
        return made

    def _refuse_nonsense(self, word: str) -> None:
        name, dtype, high, draw = self.name, self.dtype, self.high, self.draw
        is_integer = not dtype.is_floating_point and dtype is not torch.bool
        if high is not None and (dtype.is_floating_point or high < 1):
            raise TargetError("input %s: a range (<%d) is for integers, and starts above 0" % (name, high))
        if high is None and is_integer and draw not in _RANGELESS:
            shape = "x".join(map(str, self.shape)) or "scalar"
            raise TargetError("input %s: integers need a range, like %s:%s<100" % (name, shape, word))
        if high is not None and dtype is not torch.bool and high > min(torch.iinfo(dtype).max + 1, 2**63 - 1):
            raise TargetError("input %s: %s holds no number up to %d" % (name, dtype, high - 1))
        fits = {"share": dtype is torch.bool, "perm": dtype is not torch.bool, "onehot": True, "sorted": True}
        fits.update(dict.fromkeys(_OF_FLOATS, dtype.is_floating_point), **dict.fromkeys(_OF_INTEGERS, is_integer))
        if draw and (not fits[draw] or not self.shape):
            raise TargetError("input %s: %s is not for %s of shape %s" % (name, draw, dtype, list(self.shape)))
        if draw == "share" and not 0 < self.value < 1:
            raise TargetError("input %s: share=%g must lie between 0 and 1" % (name, self.value))
        if draw in _OF_INTEGERS and self.value < self.shape[-1]:
            raise TargetError("input %s: %s=%d must be at least the %d of its last dimension"
                              % (name, draw, self.value, self.shape[-1]))
        if draw == "perm" and dtype.is_floating_point and self.shape[-1] > 4 / torch.finfo(dtype).eps:
            raise TargetError("input %s: %s has no %d distinct numbers of one kind" % (name, dtype, self.shape[-1]))
        order = self.layout[len(ORDER):] if self.layout.startswith(ORDER) else ""
        if order and sorted(order) != [str(at) for at in range(len(self.shape))]:
            raise TargetError("input %s: %s must name each of its %d dimensions once" % (name, self.layout, len(self.shape)))
        if self.layout and len(self.shape) < 2:
            raise TargetError("input %s: %s needs two dimensions" % (name, self.layout))

    @property
    def bytes(self) -> int:
        return math.prod(self.shape) * torch.empty(0, dtype=self.dtype).element_size()


def _read_words(name: str, spec: str, words: Any) -> Tuple[str, Any, str]:
    """Draw, its number, layout."""
    draw, value, layout = "", None, ""
    for word in words:
        key, equals, number = word.partition("=")
        if ((key in LAYOUTS and not equals) or word.startswith(ORDER)) and not layout:
            layout = word
        elif key in DRAWS and not draw and bool(equals) == (key in _NUMBERED):
            draw = key
            try:
                value = None if not equals else float(number) if key == "share" else int(number)
            except ValueError:
                raise TargetError("input %s: %r is no number in %r" % (name, number, spec)) from None
        else:
            raise TargetError("input %s: cannot read %r in %r; draws are %s, layouts %s"
                              % (name, word, spec, ", ".join(DRAWS), ", ".join(LAYOUTS)))
    return draw, value, layout
