"""The target rotary against torch.compile: the fastest of eager and of the modes whose device time can differ.

`reduce-overhead` is `default` in a CUDA graph: it saves the host's launches, which are in no verdict.
"""

import torch

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:rotary", __file__)

TARGET = Target(
    name="rotary_compiled",
    function=baseline,
    baselines={"default": torch.compile(baseline), "max_autotune": torch.compile(baseline, mode="max-autotune-no-cudagraphs")},
    inputs={"q": "1x32x8192x128", "k": "1x8x8192x128", "cos": "8192x64", "sin": "8192x64"},
    rotate=("q", "k"),
    min_bytes=2 * 2 * 40 * 8192 * 128 + 2 * 2 * 8192 * 64,
    reference=baseline,
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
