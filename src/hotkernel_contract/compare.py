"""Holds an output against its expected values: shape, dtype, strides, NaN and Inf, error by element and by row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

import torch

from hotkernel_contract.spec import FP8
from hotkernel_contract.target import Target

# By output dtype: relative error of one element, and absolute error as a share of its row's RMS. They allow what an
# honest other order of operations does; the sharp rule is the RMS error against the baseline's own.
_BY_ELEMENT: Dict[torch.dtype, Tuple[float, float]] = {
    torch.bfloat16: (2e-2, 2e-2),
    torch.float16: (4e-3, 4e-3),
    torch.float32: (1e-4, 1e-4),
    torch.float64: (1e-9, 1e-9),
}
_FP8 = {"float8_e4m3fn": (0.14, 0.14), "float8_e5m2": (0.28, 0.28)}  # one step of three and of two bits of mantissa
_BY_ELEMENT.update({dtype: _FP8[name] for name, dtype in FP8.items()})
MAX_ERROR_RATIO = 1.58  # between one rounding more and bf16 throughout: docs/decisions/0003 has the measurement
# A sum of n terms in its own dtype, one after another, is about 0.2 sqrt(n) ulps off; an honest order is no worse than twice
# that, and five times that at its worst element.
# More terms give no more room: half the mantissa of a single number must be told, and so must a part left unread.
_SUM_ULPS, _SUM_WORST_ULPS, _MOST_TERMS = 0.4, 2.0, 1 << 17
# An error below this many ulps (of the row's RMS) passes whatever the baseline's is; one rounding to nearest is about 0.2.
_FLOOR_ULPS = {torch.bfloat16: 0.25, torch.float16: 0.25, torch.float32: 8.0, torch.float64: 64.0}
_FLOOR_STEPS = 0.05  # one rounded integer in 400 off by one: seen of int8 from bf16 in fp32: one in 2,700; in fp16: one in 97
# Of the median row's RMS: a row smaller than this is dust, and may be off as a row of this size may. What cancels (the
# 1 + tanh of a gelu) is off by an ulp of what cancelled and not of what is left: docs/decisions/0003 has the measurement.
_DUST, _DUST_OF_FP32 = 1e-3, 2e-2
# An output of one dimension has no rows: its numbers may be of rows of any size, and the large ones would hide the small. Each
# is held to its own size, or to the median of all; what is left out cancelled, or has bad luck.
_SINGLES, _LEFT_OUT, _SAMPLED = 32, 32, 1 << 16  # at least so many numbers; one in so many left out; of more so many, by chance
_FEW = 4.0  # over sqrt(n): by which the RMS of n roundings may be larger by chance, of one side and batch after batch

STATISTICS = ("bad", "max_abs", "max_rel", "row_ulps_squared", "rows", "elements")


@dataclass(frozen=True)
class Tolerance:
    """What an output may differ by: |y - e| <= rtol |e| + atol + row * rms(row), and RMS error <= ratio * baseline's."""

    rtol: float
    atol: float
    row: float
    ulp: float
    max_error_ratio: float
    floor_ulps: float

    @classmethod
    def of(cls, target: Target, dtype: torch.dtype, terms: int = 0) -> Tolerance:
        """The target's own, else the dtype's defaults; booleans must be equal, and integers but for the target's steps. `terms`:
        so many an element sums where the target does not say."""
        ratio = MAX_ERROR_RATIO if target.max_error_ratio is None else target.max_error_ratio
        if not dtype.is_floating_point:
            steps = 0 if dtype is torch.bool else target.steps
            return cls(0.0, float(steps), 0.0, 1.0, ratio, _FLOOR_STEPS if steps else 0.0)
        rtol, row = _BY_ELEMENT[dtype]
        eps, floor = torch.finfo(dtype).eps, _FLOOR_ULPS.get(dtype, 0.25)
        terms = min(_MOST_TERMS, terms if target.reduction is None else target.reduction)
        if dtype in (torch.float32, torch.float64):  # narrower ones are summed in fp32
            row = max(row, _SUM_WORST_ULPS * terms**0.5 * eps)
            floor = max(floor, _SUM_ULPS * terms**0.5)
        return cls(
            rtol=rtol if target.rtol is None else target.rtol,
            atol=0.0 if target.atol is None else target.atol,
            row=row if target.atol is None else 0.0,
            ulp=eps,
            max_error_ratio=ratio,
            floor_ulps=floor,
        )


@dataclass(frozen=True)
class Expected:
    """The right answer to one input, in the reference's precision, with what every check of it needs."""

    value: torch.Tensor  # [rows, columns], wide
    row_rms: torch.Tensor  # [rows, 1], never below the dust
    is_finite: bool

    @classmethod
    def of(cls, answer: torch.Tensor, dtype: torch.dtype) -> Expected:
        """From a reference's answer; `dtype` is the output's, in which an answer may overflow."""
        return cls.of_all([answer], [dtype])[0]

    @classmethod
    def of_all(cls, answers: Sequence[torch.Tensor], dtypes: Sequence[torch.dtype]) -> List[Expected]:
        """The same for many, which waits for a card once."""
        values = [as_rows(answer).contiguous() for answer in answers]
        flags = [_is_finite(value, dtype) for value, dtype in zip(values, dtypes)]
        finite = torch.stack(flags).tolist() if flags else []
        return [cls(value, _row_rms(value, dtype, known), known) for value, dtype, known in zip(values, dtypes, finite)]


def _is_finite(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Whether every number of an answer is finite in the output's dtype and no rounding makes it other, as a tensor."""
    if not dtype.is_floating_point:
        return torch.ones((), dtype=torch.bool, device=value.device)
    # the largest of a row is NaN or Inf exactly where the row holds one, or where the output's dtype overflows
    most = torch.finfo(dtype).max * (1 - _BY_ELEMENT[dtype][0])
    return (torch.linalg.vector_norm(value, ord=float("inf"), dim=-1) <= most).all()


def _row_rms(value: torch.Tensor, dtype: torch.dtype, is_finite: bool) -> torch.Tensor:
    """[rows, 1], over what is finite in the output's dtype."""
    if not dtype.is_floating_point:
        return torch.ones(value.shape[0], 1, device=value.device)
    if not is_finite:
        value = torch.where(torch.isfinite(value.to(dtype).to(value.dtype)), value, torch.zeros_like(value))
    rms = torch.linalg.vector_norm(value, dim=-1, keepdim=True) / value.shape[-1] ** 0.5
    return torch.maximum(rms, (_DUST_OF_FP32 if dtype is torch.float32 else _DUST) * rms.median())


@dataclass
class Tally:
    """One side's errors over all its outputs so far."""

    outputs: int = 0
    bad_outputs: int = 0
    worst_bad_share: float = 0.0
    max_abs: float = 0.0
    max_rel: float = 0.0
    ulps_squared: float = 0.0
    rows: float = 0.0
    elements: float = 0.0

    def add(self, statistics: List[List[float]]) -> int:
        """Count the statistics of some outputs (rows of STATISTICS); returns how many of them are wrong."""
        wrong = 0
        for bad, max_abs, max_rel, squared, rows, elements in statistics:
            self.outputs += 1
            wrong += bad > 0
            self.worst_bad_share = max(self.worst_bad_share, bad / max(elements, 1.0))
            self.max_abs, self.max_rel = max(self.max_abs, max_abs), max(self.max_rel, max_rel)
            self.ulps_squared += squared
            self.rows += rows
            self.elements += elements
        self.bad_outputs += wrong
        return wrong

    @classmethod
    def joined(cls, parts: Sequence[Tally]) -> Tally:
        """All outputs of a side as one: counts added, the worst of each error."""
        worst = max(parts, key=lambda part: part.rms_ulps or 0.0)
        return cls(sum(p.outputs for p in parts), sum(p.bad_outputs for p in parts), max(p.worst_bad_share for p in parts),
                   max(p.max_abs for p in parts), max(p.max_rel for p in parts), worst.ulps_squared, worst.rows, worst.elements)

    @property
    def rms_ulps(self) -> Optional[float]:
        """The RMS over rows of a row's RMS error, in units of the last place of the row's RMS."""
        return (self.ulps_squared / self.rows) ** 0.5 if self.rows else None


def as_rows(x: torch.Tensor) -> torch.Tensor:
    """[rows, columns], by the last dimension; a scalar is one row of one, what is empty no row."""
    if not x.numel():
        return x.reshape(0, 1)
    return x.reshape(1, -1) if x.dim() < 2 else x.reshape(-1, x.shape[-1])


def statistics(output: torch.Tensor, expected: Expected, tolerance: Tolerance) -> torch.Tensor:
    """STATISTICS of one output of the right shape and dtype, as a float64 tensor on its device; waits for nothing.

    Written in positive form: whatever is not within tolerance counts as bad, NaN included.
    """
    y = as_rows(output)
    if not output.numel():
        return torch.zeros(len(STATISTICS), device=y.device, dtype=torch.float64)
    if not output.dtype.is_floating_point and not tolerance.atol:
        bad = (y != expected.value).sum()
        zero = torch.zeros((), device=y.device, dtype=torch.float64)
        worst = (y.double() - expected.value.double()).abs().max()
        return torch.stack([bad.double(), worst, zero, zero, zero, zero + y.numel()])
    e = expected.value if output.dtype.is_floating_point else expected.value.double()
    difference = y.to(e.dtype, copy=True).sub_(e)
    allowed = e.abs().mul_(tolerance.rtol).add_(expected.row_rms * tolerance.row + tolerance.atol)
    if not expected.is_finite:
        same = same_pattern(y, e) | _is_at_the_limit(y, e, tolerance.rtol)
        difference = torch.where(same & ~torch.isfinite(y.to(e.dtype)), torch.zeros_like(difference), difference)
        allowed = torch.where(same, allowed, torch.full_like(allowed, -1.0))
        allowed = torch.nan_to_num(allowed, nan=0.0, posinf=0.0)
    size = difference.abs()
    bad = size.numel() - (size <= allowed).sum()
    if output.dim() < 2 and output.numel() >= _SINGLES and output.dtype.is_floating_point:
        squared = _ulps_of_singles(size.flatten(), e.flatten(), tolerance.ulp).pow_(2)
        return _joined(bad, size, expected, squared, squared.numel(), output.numel())
    row_error = difference.pow_(2).mean(-1, keepdim=True).sqrt_().div_(expected.row_rms).div_(tolerance.ulp)
    squared = torch.nan_to_num(row_error, nan=1e9, posinf=1e9).pow_(2)
    return _joined(bad, size, expected, squared, y.shape[0], y.numel())


def _joined(bad: torch.Tensor, size: torch.Tensor, expected: Expected, squared: torch.Tensor, rows: int,
            elements: int) -> torch.Tensor:
    """STATISTICS, of errors of this `size` whose squares by row, in ulps, are `squared`."""
    worst = torch.nan_to_num(size.max(), nan=torch.inf)
    relative = torch.nan_to_num((size.amax(-1, keepdim=True) / expected.row_rms).max(), nan=torch.inf)
    counts = torch.tensor([float(rows), float(elements)], device=size.device, dtype=torch.float64)
    return torch.cat([torch.stack([bad.double(), worst.double(), relative.double(), squared.sum().double()]), counts])


def _ulps_of_singles(size: torch.Tensor, e: torch.Tensor, ulp: float) -> torch.Tensor:
    """Errors in units of the last place of each number, or of the median of all, less the largest."""
    if size.numel() > _SAMPLED:
        at = torch.randint(size.numel(), (_SAMPLED,), device=size.device)
        size, e = size[at], e[at]
    magnitude = torch.where(torch.isfinite(e), e.abs(), torch.zeros_like(e))
    scale = torch.maximum(magnitude, magnitude.median()).clamp_min_(torch.finfo(e.dtype).tiny).mul_(ulp)
    ulps = torch.nan_to_num(size / scale, nan=1e9, posinf=1e9).clamp_max_(1e9)
    return ulps.sort().values[:size.numel() - size.numel() // _LEFT_OUT]


def same_pattern(y: torch.Tensor, e: torch.Tensor) -> torch.Tensor:
    """Where `y` is NaN, +Inf, -Inf or finite exactly as the reference would be in y's dtype."""
    rounded, y = e.to(y.dtype).to(e.dtype), y.to(e.dtype)  # one-byte floats know no isfinite
    finite = torch.isfinite(rounded)
    return torch.where(finite, torch.isfinite(y), (torch.isnan(rounded) & torch.isnan(y)) | (rounded == y))


def _is_at_the_limit(y: torch.Tensor, e: torch.Tensor, rtol: float) -> torch.Tensor:
    """Where the answer is so near to the largest number of y's dtype that within `rtol` it may overflow or not, and y is the
    one or the other; how large a finite y may be is not said here."""
    limit = torch.finfo(y.dtype).max
    y = y.to(e.dtype)
    is_near = (e.abs() - limit).abs() <= rtol * limit
    return is_near & (torch.isfinite(y) | (torch.isinf(y) & (y.sign() == e.sign())))


def shape_fault(shape: Tuple[int, ...], dtype: str, strides: Tuple[int, ...],
                wanted: Tuple[Tuple[int, ...], str, Tuple[int, ...]], name: str = "") -> Optional[Tuple[str, str]]:
    """The rule that an output's kind breaks and a sentence, or None; `wanted` is the baseline's (shape, dtype, strides)."""
    what = name or "the output"
    if tuple(shape) != tuple(wanted[0]):
        return "wrong_shape", "%s has shape %s, the baseline's %s" % (what, list(shape), list(wanted[0]))
    if dtype != wanted[1]:
        return "wrong_dtype", "%s is %s, the baseline's %s" % (what, dtype, wanted[1])
    real = [(size, have, want) for size, have, want in zip(shape, strides, wanted[2]) if size > 1 and 0 not in shape]
    if any(have != want for _, have, want in real):
        return "wrong_strides", "%s has strides %s, the baseline's %s" % (what, list(strides), list(wanted[2]))
    return None


def error_fault(mine: Tally, baseline: Tally, tolerance: Tolerance) -> Optional[Tuple[str, str]]:
    """The rule that a side's errors break and a sentence, or None."""
    if mine.bad_outputs:
        return "wrong_values", (
            "%d of %d outputs are wrong: up to %.3g %% of an output's elements are out of tolerance, the largest error is %.3g"
            % (mine.bad_outputs, mine.outputs, 100 * mine.worst_bad_share, mine.max_abs))
    if mine.rms_ulps is None or baseline.rms_ulps is None or mine is baseline:
        return None
    allowed = max(tolerance.max_error_ratio * baseline.rms_ulps, tolerance.floor_ulps)
    allowed *= 1 + _FEW / max(mine.elements, 1.0) ** 0.5
    if not mine.rms_ulps <= allowed:
        return "less_precise", (
            "its RMS error is %.3g ulps, the baseline's %.3g: more than %.3g times as much, which max_error_ratio may allow"
            % (mine.rms_ulps, baseline.rms_ulps, tolerance.max_error_ratio))
    return None
