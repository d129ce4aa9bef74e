"""The baseline of the target rmsnorm and the whole contract it is judged by.

What is to be beaten: a chain of eager operations.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:rmsnorm", __file__)

TARGET = Target(
    name="rmsnorm",
    function=baseline,
    inputs={"x": "4096x8192", "w": "8192"},
    rotate=("x",),
    flops=4 * 4096 * 8192,  # an exponential or a root counted as one
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
