"""The baseline of the target matmul_8192 and the whole contract it is judged by.

What is to be beaten: cuBLAS by torch.mm.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:matmul", __file__)
right = load_function("./mykernels.py:right", __file__)

TARGET = Target(
    name="matmul_8192",
    function=baseline,
    inputs={"a": "8192x8192", "b": "8192x8192"},
    rotate=("a", "b"),
    flops=2 * 8192**3,
    reference=right,
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
