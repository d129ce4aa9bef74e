"""The target gemv against torch.compile: the fastest of eager and of the modes whose device time can differ.

`reduce-overhead` is `default` in a CUDA graph: it saves the host's launches, which are in no verdict.
"""

import torch

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:gemv", __file__)

TARGET = Target(
    name="gemv_compiled",
    function=baseline,
    baselines={"default": torch.compile(baseline), "max_autotune": torch.compile(baseline, mode="max-autotune-no-cudagraphs")},
    inputs={"x": "8192x8192", "v": "8192"},
    rotate=("x",),
    flops=2 * 8192 * 8192,
    reference=baseline,
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
