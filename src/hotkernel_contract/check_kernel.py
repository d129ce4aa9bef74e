"""The check of one output in a single pass over it, where Triton is there; the same figures as compare.statistics."""

from __future__ import annotations

from typing import List

import torch
import triton
import triton.language as tl

from hotkernel_contract.compare import Expected, Tolerance, as_rows

BLOCK = 2048
MAX_COLUMNS_OF_FEW_ROWS = 1 << 17  # one program walks a row: a few very long rows are torch's work
FEW_ROWS = 128


@triton.jit
def row_errors(output, expected, row_rms, found, columns, rtol, row_share, atol, BLOCK: tl.constexpr):
    """For each row: elements out of tolerance, the largest error, the sum of squares. Positive form: NaN is out."""
    row = tl.program_id(0).to(tl.int64)
    rms = tl.load(row_rms + row)
    zero = rms * 0.0
    bad, worst, squares = zero, zero, zero
    for start in range(0, columns, BLOCK):
        at = start + tl.arange(0, BLOCK)
        inside = at < columns
        e = tl.load(expected + row * columns + at, mask=inside, other=0.0)
        y = tl.load(output + row * columns + at, mask=inside, other=0.0).to(e.dtype)
        difference = y - e
        size = tl.abs(difference)
        good = size <= tl.abs(e) * rtol + (rms * row_share + atol)
        bad += tl.sum(tl.where(inside & (good == 0), 1.0, 0.0).to(rms.dtype), 0)
        worst = tl.maximum(worst, tl.max(tl.where(size == size, size, float("inf")), 0))
        squares += tl.sum(difference * difference, 0)
    tl.store(found + row * 3, bad)
    tl.store(found + row * 3 + 1, worst)
    tl.store(found + row * 3 + 2, squares)


def fits(output: torch.Tensor, expected: Expected) -> bool:
    """Whether this kernel serves: rows of floats of two bytes or more, contiguous and on the card, whose answer is finite."""
    rows, columns = expected.value.shape
    return (output.is_cuda and output.dim() > 1 and output.dtype.is_floating_point and output.element_size() > 1
            and output.numel() > 0 and output.is_contiguous() and expected.is_finite
            and expected.value.is_contiguous() and not (rows < FEW_ROWS and columns > MAX_COLUMNS_OF_FEW_ROWS))


def fused_statistics(outputs: List[torch.Tensor], expected: List[Expected], tolerance: Tolerance) -> torch.Tensor:
    """compare.STATISTICS of outputs of one shape, a row each, as a float64 tensor on their device."""
    rows, columns = expected[0].value.shape
    found = torch.empty(len(outputs), rows, 3, device=outputs[0].device, dtype=expected[0].value.dtype)
    for output, right, into in zip(outputs, expected, found):
        row_errors[(rows,)](as_rows(output), right.value, right.row_rms, into, columns, tolerance.rtol, tolerance.row,
                            tolerance.atol, BLOCK=BLOCK, num_warps=8)
    found = found.double()
    rms = torch.stack([right.row_rms for right in expected]).double().view(len(outputs), rows)
    error = found[..., 2].div(columns).sqrt_().div_(rms).div_(tolerance.ulp)
    squared = torch.nan_to_num(error, nan=1e9, posinf=1e9).pow_(2)
    worst = found[..., 1]
    sizes = [torch.full_like(worst[:, 0], float(size)) for size in (rows, rows * columns)]  # a copy from here would wait
    return torch.stack([found[..., 0].sum(-1), worst.amax(-1), (worst / rms).amax(-1), squared.sum(-1), *sizes], 1)
