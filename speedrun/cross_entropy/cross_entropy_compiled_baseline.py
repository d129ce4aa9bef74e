"""The target cross_entropy against torch.compile: the fastest of eager and of the modes whose device time can differ.

`reduce-overhead` is `default` in a CUDA graph: it saves the host's launches, which are in no verdict.
"""

import torch

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:cross_entropy", __file__)
right = load_function("./mykernels.py:right", __file__)

TARGET = Target(
    name="cross_entropy_compiled",
    function=baseline,
    baselines={"default": torch.compile(baseline), "max_autotune": torch.compile(baseline, mode="max-autotune-no-cudagraphs")},
    inputs={"x": "2048x128256", "at": "2048:int64<128256"},
    rotate=("x", "at"),
    reference=right,
    reduction=128256,
    min_bytes=2 * 2048 * 128256 + 2048 * (8 + 4),
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
