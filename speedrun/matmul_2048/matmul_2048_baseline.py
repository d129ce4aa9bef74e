"""The baseline of the target matmul_2048 and the whole contract it is judged by.

What is to be beaten: cuBLAS by torch.mm.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:matmul", __file__)

TARGET = Target(
    name="matmul_2048",
    function=baseline,
    inputs={"a": "2048x2048", "b": "2048x2048"},
    rotate=("a", "b"),
    flops=2 * 2048**3,
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
