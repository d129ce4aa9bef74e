"""The target rmsnorm against torch.compile: the fastest of eager and of the modes whose device time can differ.

`reduce-overhead` is `default` in a CUDA graph: it saves the host's launches, which are in no verdict.
"""

import torch

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:rmsnorm", __file__)

TARGET = Target(
    name="rmsnorm_compiled",
    function=baseline,
    baselines={"default": torch.compile(baseline), "max_autotune": torch.compile(baseline, mode="max-autotune-no-cudagraphs")},
    inputs={"x": "4096x8192", "w": "8192"},
    rotate=("x",),
    reference=baseline,
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
