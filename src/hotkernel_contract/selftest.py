"""Whether a target can judge: its check must take the right answer and refuse plain wrong ones; else it is refused."""

from __future__ import annotations

import math
import os
from typing import Callable, Dict, List, Optional, Sequence, Tuple

import torch

from hotkernel_contract.call import WEIGHT, Outputs
from hotkernel_contract.compare import Expected, Tally, Tolerance, as_rows, error_fault, shape_fault, statistics
from hotkernel_contract.inputs import draw, is_kept, like
from hotkernel_contract.outputs import Observed, observe
from hotkernel_contract.pool import Pool
from hotkernel_contract.room import with_room
from hotkernel_contract.rounds import kinds_for
from hotkernel_contract.target import MOST_STEPS, Target, TargetError, wide_for

Probe = Callable[[torch.Tensor, List[torch.Tensor]], torch.Tensor]
ROUND_TRIES = 4  # entries of another kind that the baseline must get right for the kind to be used
OTHERS = 8  # inputs whose answers are held against each other's
UNREAD = 1 / 32  # of an input's numbers: an answer for which so many are others must not pass; half as many might
FEWER = 64  # times fewer numbers than what was read: an output that may be an average
LITTLE = 0.1  # of its row's RMS: a value below it may be missed by an honest tolerance


def refuse_weak(target: Target, device: str, seen: Optional[Observed] = None) -> List[Tolerance]:
    """The tolerances of the outputs, with the room that the baseline needs. Raises TargetError when the target cannot judge; a
    probe that equals the right answer is no probe and is skipped."""
    seen = seen or observe(target.settle(device), device)
    generator = new_generator(device)
    with torch.no_grad():
        raw = draw(target, generator, device, tuple(target.raws))
        inputs = target.call_inputs(raw)
        outputs = _outputs(target, inputs)
        answers = target.expected(inputs, wide_for(*seen.dtypes))
        refuse_reference(target, answers, outputs, raw, generator, device)
        entries = [(answers, outputs), *(_another(target, generator, device, wide_for(*seen.dtypes)) for _ in range(OTHERS - 1))]
        expected = [Expected.of_all([right[name] for name in mine], seen.dtypes) for right, mine in entries]
        tolerances = with_room(target, seen.tolerances(target), [
            (list(mine.values()), right) for (_, mine), right in zip(entries, expected)])
        for at, ((name, answer), output, tolerance) in enumerate(zip(answers.items(), outputs.values(), tolerances)):
            where, rights = "" if len(outputs) == 1 else " of %s" % name, [each[at] for each in expected]
            _refuse_loose(where, answer, output, rights[0], list(inputs.values()), tolerance)
            _refuse_deaf(where, [each[name] for each, _ in entries], [each[name] for _, each in entries], rights, tolerance)
        _refuse_averages(target, generator, device, seen, tolerances)
    return tolerances


def _refuse_loose(where: str, answer: torch.Tensor, output: torch.Tensor, expected: Expected, inputs: List[torch.Tensor],
                  tolerance: Tolerance) -> None:
    """Raise TargetError when the check of one output refuses the right answer, or takes a wrong one."""
    if not output.numel():
        return  # there is nothing in it to be wrong
    baseline = tally_of(output, expected, tolerance)
    fault = error_fault(baseline, baseline, tolerance)
    if fault:
        raise TargetError("the baseline fails its own check%s: %s; loosen rtol/atol (rounded integers: steps=1), give a better "
                          "reference, or set mixture='normal' if extreme inputs are not legal for it" % (where, fault[1]))
    right = answer.to(output.dtype)
    for name, probe in PROBES.items():
        wrong = probe(right, inputs)
        if wrong.shape != right.shape or same_bits(wrong, right):
            continue
        fault = error_fault(tally_of(wrong, expected, tolerance), baseline, tolerance)
        if fault is None and not near(wrong, right, expected):
            raise TargetError("the check%s would pass %s as the answer: the tolerances (rtol=%.3g, atol=%.3g) are too wide "
                              "for this output" % (where, name, tolerance.rtol, tolerance.atol))


def _another(target: Target, generator: torch.Generator, device: str, wide: torch.dtype) -> Tuple[Outputs, Outputs]:
    """The right answers to another drawing, and the baseline's outputs."""
    inputs = target.call_inputs(draw(target, generator, device, tuple(target.raws)))
    return target.expected(inputs, wide), _outputs(target, inputs)


def _outputs(target: Target, inputs: Dict[str, torch.Tensor]) -> Outputs:
    """The baseline's, as copies: a function may hand out the same buffer again."""
    return {name: like(y) for name, y in target.run({name: like(x) for name, x in inputs.items()}).items()}


def _refuse_deaf(where: str, answers: List[torch.Tensor], outputs: List[torch.Tensor], rights: List[Expected],
                 tolerance: Tolerance) -> None:
    """Raise TargetError when the check would take, over several inputs, what is made of the answers to others: then none need
    be read. Of numbers that is their mean, the best guess of one who reads nothing."""
    if all(same(answer, answers[0]) for answer in answers):
        return  # the same whatever is drawn: a constant is right
    deaf, baseline = Tally(), Tally()
    for at, (answer, output, expected) in enumerate(zip(answers, outputs, rights)):
        others = answers[:at] + answers[at + 1:]
        guess = torch.stack(others).mean(0) if answer.dtype.is_floating_point else others[0]
        deaf.add([statistics(guess.to(output.dtype).contiguous(), expected, tolerance).tolist()])
        baseline.add([statistics(output.contiguous(), expected, tolerance).tolist()])
    if error_fault(deaf, baseline, tolerance) is None:
        raise TargetError("the check%s would pass the answer to other inputs: random inputs differ too little in it (a mean over "
                          "many of them, say); set mixture='full', or return what is not averaged" % where)


def _refuse_averages(target: Target, generator: torch.Generator, device: str, seen: Observed,
                     tolerances: Sequence[Tolerance]) -> None:
    """Raise TargetError when the check of an output that averages many numbers would take the answer to inputs of which some are
    others: then so many need not be read."""
    free = [name for name, raw in target.raws.items() if raw.dtype.is_floating_point and raw.draw in ("", "positive", "unit")]
    read = sum(math.prod(target.raws[name].shape) for name in free)
    few = [at for at, y in enumerate(seen.outputs.values()) if y.dtype.is_floating_point and 0 < y.numel() * FEWER <= read]
    wide, tallies = wide_for(*seen.dtypes), {at: (Tally(), Tally()) for at in few}
    for _ in range(OTHERS if few else 0):
        raw = draw(target, generator, device, tuple(target.raws))
        part = {name: torch.where(torch.rand(raw[name].shape, generator=generator, device=device) < UNREAD,
                                  draw(target, generator, device, (name,))[name], raw[name]) for name in free}
        inputs = target.call_inputs(raw)
        right, wrong = (list(target.expected(each, wide).values()) for each in (inputs, target.call_inputs({**raw, **part})))
        outputs = list(_outputs(target, inputs).values())
        for at, both in tallies.items():
            if same(wrong[at], right[at]):
                continue  # of a maximum, say, which most of the numbers do not make
            expected = Expected.of(right[at], outputs[at].dtype)
            for tally, y in zip(both, (wrong[at].to(outputs[at].dtype), outputs[at])):
                tally.add([statistics(y.contiguous(), expected, tolerances[at]).tolist()])
    for at, (mine, baseline) in tallies.items():
        if mine.outputs and error_fault(mine, baseline, tolerances[at]) is None:
            raise TargetError("the check of %s would pass the answer to inputs of which one number in %d is another: it averages "
                              "so many that a part may be left unread; say with reduction= how few terms are summed one after "
                              "another, or return what is not averaged" % (seen.kinds[at].name, 1 / UNREAD))


def rounds_for(target: Target, device: str, seen: Observed,
               tolerances: Sequence[Tolerance]) -> Tuple[List[str], Dict[str, str]]:
    """The kinds of other inputs on which this target can be held against its reference, and why not on the others."""
    able: List[str] = []
    limited: Dict[str, str] = {}
    for kind in kinds_for(target):
        pool = Pool(target, device, seen.dtypes)
        pool.draw(ROUND_TRIES, kind)
        fault = None
        for at in range(ROUND_TRIES):
            outputs = target.run({name: like(x) for name, x in pool.inputs(at).items()})
            for output, expected, tolerance in zip(outputs.values(), pool.expected[at], tolerances):
                tally = tally_of(output, expected, tolerance)
                fault = fault or error_fault(tally, tally, tolerance)
        if fault:
            limited[kind] = fault[1]
        else:
            able.append(kind)
    return able, limited


def new_generator(device: str) -> torch.Generator:
    generator = torch.Generator(device=device)
    generator.manual_seed(int.from_bytes(os.urandom(8), "little") >> 1)
    return generator


def refuse_reference(target: Target, answers: Outputs, outputs: Outputs, raw: Dict[str, torch.Tensor],
                     generator: torch.Generator, device: str) -> None:
    """Raise TargetError for a reference whose outputs are others, of the wrong shape, constant, zero, NaN or deaf to an input."""
    if list(answers) != list(outputs):
        raise TargetError("the reference returns %s, the function %s" % (", ".join(answers) or "nothing", ", ".join(outputs)))
    for name, answer in answers.items():
        output = outputs[name]
        if shape_fault(tuple(answer.shape), "", (), (tuple(output.shape), "", ())):
            raise TargetError("the reference returns shape %s, the function %s" % (list(answer.shape), list(output.shape)))
        if answer.dtype.is_floating_point != output.dtype.is_floating_point:
            raise TargetError("the reference returns %s as %s, the function as %s" % (name, answer.dtype, output.dtype))
        if answer.dtype.is_floating_point and answer.numel() and not torch.isfinite(answer).any():
            raise TargetError("the reference returns no finite number%s (NaN or Inf everywhere)"
                              % (" in " + name if len(answers) > 1 else ""))
    clean = [torch.nan_to_num(x) if x.dtype.is_floating_point else x for x in answers.values()]
    if all(x.numel() == 0 or bool((x == x.reshape(-1)[0]).all()) for x in clean) and any(x.numel() > 1 for x in clean):
        first = next(x for x in clean if x.numel())
        raise TargetError("the reference returns one constant (%s) for random inputs: it cannot judge"
                          % first.reshape(-1)[0].item())
    wide = wide_for(*(x.dtype for x in outputs.values()))
    for name in target.raws:
        if is_kept(target, name) or name.startswith(WEIGHT):  # a module may have weights that a call leaves alone
            continue
        other = {**raw, **draw(target, generator, device, (name,))}
        if same_bits(raw[name], other[name]):
            continue  # a scalar boolean, say, came out the same
        others = target.expected(target.call_inputs(other), wide)
        if all(same(others[output], answers[output]) for output in answers):
            raise TargetError("the reference does not depend on input %s: remove it, or give a reference that uses it" % name)


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    first, second = (x.contiguous().view(-1).view(torch.uint8) for x in (a, b))  # a probe may be one number, expanded
    return torch.equal(first, second) or (
        a.element_size() > 1 and torch.equal(a, b))


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
        flat[at] = flat[at] + 2 * MOST_STEPS
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
    # the highest bit of the lower half, turned over: cut off instead, the lower half of a single number is small by chance
    return (right.contiguous().view(whole) ^ (1 << (bits - 1))).view(right.dtype)


def input_itself(right: torch.Tensor, inputs: List[torch.Tensor]) -> torch.Tensor:
    return next((x.to(right.dtype) for x in inputs if x.shape == right.shape), right)


def neighbour_row(right: torch.Tensor, _inputs: List[torch.Tensor]) -> torch.Tensor:
    return right.roll(1, 0) if right.dim() else right


def row_mean(right: torch.Tensor, _inputs: List[torch.Tensor]) -> torch.Tensor:
    if not right.dtype.is_floating_point or right.dim() == 0:
        return right
    return right.double().mean(-1, keepdim=True).expand(right.shape).to(right.dtype)


def shuffled(right: torch.Tensor, _inputs: List[torch.Tensor]) -> torch.Tensor:
    if right.dim() == 0:
        return right
    flat = right.reshape(-1)
    return flat[torch.randperm(flat.numel(), device=right.device)].view(right.shape)


def constant(right: torch.Tensor, _inputs: List[torch.Tensor]) -> torch.Tensor:
    """Every element is one of the right ones."""
    if right.dim() == 0 or not right.numel():
        return right
    return right.reshape(-1)[0].expand(right.shape).contiguous()


PROBES: Dict[str, Probe] = {
    "zeros": lambda right, _: torch.zeros_like(right),
    "a constant": constant,
    "the right numbers in another order": shuffled,
    "the input itself": input_itself,
    "the row's mean": row_mean,
    "a neighbouring row": neighbour_row,
    "half the mantissa": half_mantissa,
    "one wrong element": one_wrong,
    "an unwritten tail": unwritten_tail,
}
__all__: Tuple[str, ...] = ("refuse_weak", "rounds_for")
