"""The baseline of the target rmsnorm and the whole contract it is judged by.

The loop edits rmsnorm_candidate.py, not this file. `python rmsnorm_baseline.py` checks the baseline, times it by its
own clock and prints one JSON line.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:rmsnorm", __file__)

TARGET = Target(
    name="rmsnorm",
    function=baseline,
    inputs={"x": "4096x8192", "w": "8192"},
    dtype="bf16",
    rotate=("x",),
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
