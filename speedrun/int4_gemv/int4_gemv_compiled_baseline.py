"""The target int4_gemv against torch.compile: the fastest of eager and of the modes whose device time can differ.

`reduce-overhead` is `default` in a CUDA graph: it saves the host's launches, which are in no verdict.
"""

import torch

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:int4_gemv", __file__)
derive = load_function("./mykernels.py:derive", __file__)
right = load_function("./mykernels.py:right", __file__)

TARGET = Target(
    name="int4_gemv_compiled",
    function=baseline,
    baselines={"default": torch.compile(baseline), "max_autotune": torch.compile(baseline, mode="max-autotune-no-cudagraphs")},
    inputs={"v": "8192", "w": "28672x8192"},
    derive=derive,
    takes=("v", "packed", "scale"),
    rotate=("packed", "scale"),
    reference=right,
    flops=2 * 28672 * 8192,
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
