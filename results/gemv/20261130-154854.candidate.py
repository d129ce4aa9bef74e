"""The baseline of the target gemv and the whole contract it is judged by.

The loop edits gemv_candidate.py, not this file. `python gemv_baseline.py` checks the baseline, times it by its
own clock and prints one JSON line.
"""

from torch import mv as baseline

from hotkernel_contract import Target

TARGET = Target(
    name="gemv",
    function=baseline,
    inputs={"x": "8192x8192", "v": "8192"},
    dtype="bf16",
    rotate=("x",),
    flops=134217728,
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
