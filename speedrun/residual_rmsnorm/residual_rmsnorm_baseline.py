"""The baseline of the target residual_rmsnorm and the whole contract it is judged by.

What is to be beaten: x is added to the residual in place, and the norm of the sum comes out.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:residual_rmsnorm", __file__)
right = load_function("./mykernels.py:right", __file__)

TARGET = Target(
    name="residual_rmsnorm",
    function=baseline,
    inputs={"x": "4096x8192", "residual": "4096x8192", "w": "8192"},
    rotate=("x", "residual"),
    writes=("residual",),
    reference=right,
    min_bytes=4 * 2 * 4096 * 8192 + 2 * 8192,
    flops=5 * 4096 * 8192,  # an exponential or a root counted as one
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
