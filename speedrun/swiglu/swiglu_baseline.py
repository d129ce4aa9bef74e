"""The baseline of the target swiglu and the whole contract it is judged by.

What is to be beaten: two eager operations.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:swiglu", __file__)

TARGET = Target(
    name="swiglu",
    function=baseline,
    inputs={"gate": "4096x14336", "up": "4096x14336"},
    rotate=("gate", "up"),
    flops=5 * 4096 * 14336,  # an exponential or a root counted as one
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
