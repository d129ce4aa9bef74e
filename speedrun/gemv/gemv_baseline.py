"""The baseline of the target gemv and the whole contract it is judged by.

What is to be beaten: cuBLAS by torch.mv.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:gemv", __file__)

TARGET = Target(
    name="gemv",
    function=baseline,
    inputs={"x": "8192x8192", "v": "8192"},
    rotate=("x",),
    flops=2 * 8192 * 8192,
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
