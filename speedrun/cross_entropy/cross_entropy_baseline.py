"""The baseline of the target cross_entropy and the whole contract it is judged by.

What is to be beaten: logits widened to fp32, as most training code does.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:cross_entropy", __file__)
right = load_function("./mykernels.py:right", __file__)

TARGET = Target(
    name="cross_entropy",
    function=baseline,
    inputs={"x": "2048x128256", "at": "2048:int64<128256"},
    rotate=("x", "at"),
    reference=right,
    reduction=128256,
    min_bytes=2 * 2048 * 128256 + 2048 * (8 + 4),
    flops=4 * 2048 * 128256,  # an exponential or a root counted as one
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
