"""The baseline of the target layernorm and the whole contract it is judged by.

What is to be beaten: PyTorch's own kernel.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:layernorm", __file__)

TARGET = Target(
    name="layernorm",
    function=baseline,
    inputs={"x": "4096x8192", "w": "8192", "b": "8192"},
    rotate=("x",),
    flops=8 * 4096 * 8192,  # an exponential or a root counted as one
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
