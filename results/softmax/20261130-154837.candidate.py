"""The baseline of the target softmax and the whole contract it is judged by.

The loop edits softmax_candidate.py, not this file. `python softmax_baseline.py` checks the baseline, times it by its
own clock and prints one JSON line.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:softmax", __file__)

TARGET = Target(
    name="softmax",
    function=baseline,
    inputs={"x": "4096x8192"},
    dtype="bf16",
    rotate=("x",),
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
