"""x is added to the residual in place, and the norm of the sum comes out with its scale: two outputs and one written."""

import torch

from hotkernel_contract import Target

LARGE = torch.cuda.is_available()
ROWS, COLUMNS = (4096, 4096) if LARGE else (64, 128)


def residual_rmsnorm(x, residual, w):
    residual.add_(x)
    wide = residual.float()
    r = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (wide * r * w.float()).to(x.dtype), r


def right(x, residual, w):
    """What comes out is of the residual as it is kept, rounded to bf16."""
    residual.add_(x)
    kept = residual.bfloat16().to(x.dtype)
    r = torch.rsqrt(kept.pow(2).mean(-1, keepdim=True) + 1e-6)
    return kept * r * w, r


TARGET = Target(
    name="residual_rmsnorm", function=residual_rmsnorm, writes=("residual",),
    inputs={"x": f"{ROWS}x{COLUMNS}", "residual": f"{ROWS}x{COLUMNS}", "w": f"{COLUMNS}"},
    reference=right)
