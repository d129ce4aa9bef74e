"""Room for honest roundings: the default tolerances by element, as wide as the baseline's own rounding asks for."""

from __future__ import annotations

from dataclasses import replace
from typing import List, Sequence, Tuple

import torch

from hotkernel_contract.compare import Expected, Tolerance, as_rows
from hotkernel_contract.target import Target

SPARE, WIDEST = 2.0, 3.0  # times the baseline's largest error in a proof, for a verify checks far more; times the default
MOST, RARE = 2.5, 1e-6  # of what is allowed, and the share of numbers beyond it: what is worse fails the target's own check
Answered = Tuple[Sequence[torch.Tensor], Sequence[Expected]]  # the baseline's outputs to an input, and what is right


def with_room(target: Target, tolerances: Sequence[Tolerance], drawings: Sequence[Answered]) -> List[Tolerance]:
    """The target's own tolerances as they are; the defaults wider, where the baseline's own errors on these drawings come
    nearer to them than half.

    What is a difference of two rounded products (a rotary embedding in bf16) may be off by more than its row lets it be, once in
    some hundred million numbers; a verify checks ten thousand million, and one alone makes a side wrong. The RMS error, by
    which precision is compared, is not touched.
    """
    if target.rtol is not None or target.atol is not None:
        return list(tolerances)
    return [_widened(tolerance, [(outputs[at], expected[at]) for outputs, expected in drawings])
            for at, tolerance in enumerate(tolerances)]


def _widened(tolerance: Tolerance, answers: Sequence[Tuple[torch.Tensor, Expected]]) -> Tolerance:
    numbers = sum(output.numel() for output, _ in answers)
    if not numbers or not answers[0][0].dtype.is_floating_point:
        return tolerance
    found = torch.stack([_nearness(output, right, tolerance) for output, right in answers if output.numel()])
    nearest, beyond = found[:, 0].max().item(), found[:, 1].sum().item()
    if not nearest <= MOST or beyond > RARE * numbers:
        return tolerance
    factor = min(WIDEST, max(1.0, SPARE * nearest))
    return replace(tolerance, rtol=factor * tolerance.rtol, atol=factor * tolerance.atol, row=factor * tolerance.row)


def _nearness(output: torch.Tensor, expected: Expected, tolerance: Tolerance) -> torch.Tensor:
    """The largest error as a share of what is allowed, and how many are beyond it; what is not finite has a check of its own."""
    y, e = as_rows(output).to(expected.value.dtype), expected.value
    allowed = e.abs() * tolerance.rtol + (expected.row_rms * tolerance.row + tolerance.atol)
    share = torch.where(torch.isfinite(y) & torch.isfinite(e), (y - e).abs() / allowed, torch.zeros_like(e))
    share = torch.where((y == e) | ~torch.isfinite(allowed), torch.zeros_like(e), share)  # 0 / 0 where nothing is allowed
    return torch.stack([share.max(), (share > 1).sum().to(share.dtype)])
