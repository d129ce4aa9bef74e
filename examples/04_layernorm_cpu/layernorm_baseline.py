"""The baseline of the target layernorm and the whole contract it is judged by.

The loop edits layernorm_candidate.py, not this file. `python layernorm_baseline.py` checks the baseline, times it by its
own clock and prints one JSON line.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:layernorm", __file__)

TARGET = Target(
    name="layernorm",
    function=baseline,
    inputs={"x": "256x1024", "w": "1024", "b": "1024"},
    dtype="fp32",
    rotate=("x",),
    device="cpu",
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
