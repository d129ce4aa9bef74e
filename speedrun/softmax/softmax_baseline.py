"""The baseline of the target softmax and the whole contract it is judged by.

What is to be beaten: PyTorch's own kernel.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:softmax", __file__)

TARGET = Target(
    name="softmax",
    function=baseline,
    inputs={"x": "4096x8192"},
    rotate=("x",),
    flops=5 * 4096 * 8192,  # an exponential or a root counted as one
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
