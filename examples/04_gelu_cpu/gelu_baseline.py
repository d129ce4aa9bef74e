"""The baseline of the target gelu and the whole contract it is judged by.

The loop edits gelu_candidate.py, not this file. `python gelu_baseline.py` checks the baseline, times it by its
own clock and prints one JSON line.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:gelu", __file__)

TARGET = Target(
    name="gelu",
    function=baseline,
    inputs={"x": "512x1024"},
    dtype="fp32",
    rotate=("x",),
    atol=1e-05,
    device="cpu",
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
