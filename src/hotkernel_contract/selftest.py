"""Whether a target can judge: its check must take the right answer and refuse plain wrong ones; else it is refused."""

from __future__ import annotations

import os
from typing import Callable, Dict, List, Tuple

import torch

from hotkernel_contract.compare import Expected, Tally, Tolerance, as_rows, error_fault, shape_fault, statistics
from hotkernel_contract.inputs import draw
from hotkernel_contract.target import Target, TargetError, wide_for

Probe = Callable[[torch.Tensor, List[torch.Tensor]], torch.Tensor]
LITTLE = 0.1  # of its row's RMS: a value below it may be missed by an honest tolerance


def refuse_weak(target: Target, device: str, tolerance: Tolerance) -> None:
    """Raise TargetError when the target cannot judge; a probe that equals the right answer is no probe and is skipped."""
    generator = torch.Generator(device=device)
    generator.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
    with torch.no_grad():
        raw = draw(target, generator, device, tuple(target.raws))
        inputs = list(target.call_inputs(raw).values())
        output = target.function(*[x.clone() for x in inputs])
        if not isinstance(output, torch.Tensor):
            raise TargetError("the function returns %s, not a tensor" % type(output).__name__)
        wide = wide_for(output.dtype)
        answer = target.expected(inputs, wide)
        refuse_reference(target, answer, output, raw, generator, device)
        expected = Expected.of(answer, output.dtype)
        baseline = tally_of(output, expected, tolerance)
        fault = error_fault(baseline, baseline, tolerance)
        if fault:
            raise TargetError("the baseline fails its own check: %s; loosen rtol/atol, give a better reference, or set "
                              "mixture='normal' if extreme inputs are not legal for it" % fault[1])
        right = answer.to(output.dtype)
        for name, probe in PROBES.items():
            wrong = probe(right, inputs)
            if wrong.shape != right.shape or torch.equal(wrong, right):
                continue
            fault = error_fault(tally_of(wrong, expected, tolerance), baseline, tolerance)
            if fault is None and not near(wrong, right, expected):
                raise TargetError("the check would pass %s as the answer: the tolerances (rtol=%.3g, atol=%.3g) are too wide "
                                  "for this output" % (name, tolerance.rtol, tolerance.atol))


def refuse_reference(target: Target, answer: torch.Tensor, output: torch.Tensor, raw: Dict[str, torch.Tensor],
                     generator: torch.Generator, device: str) -> None:
    """Raise TargetError for a reference that is of the wrong shape, constant, zero, NaN or deaf to an input."""
    fault = shape_fault(tuple(answer.shape), "", (), (tuple(output.shape), "", ()))
    if fault:
        raise TargetError("the reference returns shape %s, the function %s" % (list(answer.shape), list(output.shape)))
    if answer.dtype.is_floating_point:
        if not torch.isfinite(answer).any():
            raise TargetError("the reference returns no finite number (NaN or Inf everywhere)")
        clean = torch.nan_to_num(answer)
    else:
        clean = answer
    if clean.numel() > 1 and bool((clean == clean.reshape(-1)[0]).all()):
        raise TargetError("the reference returns one constant (%s) for random inputs: it cannot judge"
                          % clean.reshape(-1)[0].item())
    for name in target.raws:
        other = {**raw, **draw(target, generator, device, (name,))}
        if same(target.expected(list(target.call_inputs(other).values()), wide_for(output.dtype)), answer):
            raise TargetError("the reference does not depend on input %s: remove it, or give a reference that uses it" % name)


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Equal with NaN equal to NaN."""
    return a.shape == b.shape and bool(((a == b) | ((a != a) & (b != b))).all())


def tally_of(output: torch.Tensor, expected: Expected, tolerance: Tolerance) -> Tally:
    tally = Tally()
    tally.add([statistics(output.contiguous(), expected, tolerance).tolist()])
    return tally


def near(wrong: torch.Tensor, right: torch.Tensor, expected: Expected) -> bool:
    """Whether a probe differs from the right answer by less than rounding: then it is no wrong answer."""
    if not right.dtype.is_floating_point:
        return False
    difference = torch.nan_to_num(as_rows(wrong).double() - as_rows(right).double()).abs()
    return bool((difference <= torch.finfo(right.dtype).eps * expected.row_rms.double()).all())


def one_wrong(right: torch.Tensor, _inputs: List[torch.Tensor]) -> torch.Tensor:
    wrong = right.clone()
    flat = wrong.view(-1) if wrong.is_contiguous() else wrong.reshape(-1)
    at = int.from_bytes(os.urandom(4), "little") % flat.numel()
    if right.dtype.is_floating_point:
        scale = torch.nan_to_num(as_rows(right).double(), posinf=0.0, neginf=0.0).pow(2).mean().sqrt().item() or 1.0
        flat[at] = float(flat[at].double().nan_to_num(posinf=0.0, neginf=0.0).item() + 8 * scale)
    elif right.dtype is torch.bool:
        flat[at] = ~flat[at]
    else:
        flat[at] = flat[at] + 1
    return flat.view(right.shape)


def unwritten_tail(right: torch.Tensor, _inputs: List[torch.Tensor]) -> torch.Tensor:
    wrong = right.clone().reshape(-1)
    wrong[-max(1, wrong.numel() // 50):] = 0
    wrong = wrong.view(right.shape)
    if not right.dtype.is_floating_point:
        return wrong
    rows = torch.nan_to_num(as_rows(right).double(), posinf=0.0, neginf=0.0)
    missing = (as_rows(wrong) != as_rows(right)) & (rows.abs() > LITTLE * rows.pow(2).mean(-1, keepdim=True).sqrt())
    return wrong if bool(missing.any()) else right  # the sum of a zero row, say, is as good as unwritten


def half_mantissa(right: torch.Tensor, _inputs: List[torch.Tensor]) -> torch.Tensor:
    kinds = {torch.bfloat16: (torch.int16, 4), torch.float16: (torch.int16, 5), torch.float32: (torch.int32, 12),
             torch.float64: (torch.int64, 26)}
    if right.dtype not in kinds:
        return right
    whole, bits = kinds[right.dtype]
    return (right.contiguous().view(whole) & ~((1 << bits) - 1)).view(right.dtype)


def input_itself(right: torch.Tensor, inputs: List[torch.Tensor]) -> torch.Tensor:
    return next((x.to(right.dtype) for x in inputs if x.shape == right.shape), right)


def neighbour_row(right: torch.Tensor, _inputs: List[torch.Tensor]) -> torch.Tensor:
    return right.roll(1, 0) if right.dim() else right


def row_mean(right: torch.Tensor, _inputs: List[torch.Tensor]) -> torch.Tensor:
    if not right.dtype.is_floating_point or right.dim() == 0:
        return right
    return right.double().mean(-1, keepdim=True).expand(right.shape).to(right.dtype)


PROBES: Dict[str, Probe] = {
    "zeros": lambda right, _: torch.zeros_like(right),
    "the input itself": input_itself,
    "the row's mean": row_mean,
    "a neighbouring row": neighbour_row,
    "half the mantissa": half_mantissa,
    "one wrong element": one_wrong,
    "an unwritten tail": unwritten_tail,
}
__all__: Tuple[str, ...] = ("refuse_weak",)
