"""The baseline of the target gelu and the whole contract it is judged by.

What is to be beaten: PyTorch's own kernel.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:gelu", __file__)

TARGET = Target(
    name="gelu",
    function=baseline,
    inputs={"x": "8192x8192"},
    rotate=("x",),
    flops=8 * 8192 * 8192,  # an exponential or a root counted as one
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
