"""Programmatic dependent launch: the next call's programs are in place when this call's last ones end, so that the gap between
two launches (1.6 us) is not waited for; some 1.5 %.
"""

import os

import torch
import triton
import triton.language as tl
from triton.language.extra.cuda import gdc_launch_dependents, gdc_wait

EPSILON = 1e-6
WARPS = 8
EARLY = os.environ.get("TRITON_INTERPRET") != "1"  # the interpreter runs no inline assembly
OPTIONS = {"launch_pdl": True} if EARLY else {}


@triton.jit


def kernel(x, residual, w, y, epsilon, COLUMNS: tl.constexpr, EARLY: tl.constexpr):
    if EARLY:
        gdc_wait()
    row = tl.program_id(0).to(tl.int64) * COLUMNS
    at = tl.arange(0, COLUMNS)
    added = tl.load(x + row + at, eviction_policy="evict_first").to(tl.float32)
    value = tl.load(residual + row + at, eviction_policy="evict_first").to(tl.float32) + added
    kept = value.to(residual.dtype.element_ty)
    tl.store(residual + row + at, kept)
    value = kept.to(tl.float32)
    weight = tl.load(w + at, eviction_policy="evict_last").to(tl.float32)
    if EARLY:
        gdc_launch_dependents()
    scale = 1.0 / tl.sqrt(tl.sum(value * value, axis=0) / COLUMNS + epsilon)
    tl.store(y + row + at, (value * scale * weight).to(y.dtype.element_ty))


def candidate(x, residual, w):
    y = torch.empty_like(x)
    kernel[(x.shape[0],)](x, residual, w, y, EPSILON, COLUMNS=x.shape[1], EARLY=EARLY, num_warps=WARPS, **OPTIONS)
    return y
