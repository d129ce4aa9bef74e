"""The target residual_rmsnorm against torch.compile: the fastest of eager and of the modes whose device time can differ.

`reduce-overhead` is `default` in a CUDA graph: it saves the host's launches, which are in no verdict.
"""

import torch

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:residual_rmsnorm", __file__)
right = load_function("./mykernels.py:right", __file__)

TARGET = Target(
    name="residual_rmsnorm_compiled",
    function=baseline,
    baselines={"default": torch.compile(baseline), "max_autotune": torch.compile(baseline, mode="max-autotune-no-cudagraphs")},
    inputs={"x": "4096x8192", "residual": "4096x8192", "w": "8192"},
    rotate=("x", "residual"),
    writes=("residual",),
    reference=right,
    min_bytes=4 * 2 * 4096 * 8192 + 2 * 8192,
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
