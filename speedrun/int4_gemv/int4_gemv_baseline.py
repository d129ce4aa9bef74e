"""The baseline of the target int4_gemv and the whole contract it is judged by.

What is to be beaten: the weight is unpacked, then cuBLAS; two values a byte, a scale for each 128.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:int4_gemv", __file__)
derive = load_function("./mykernels.py:derive", __file__)
right = load_function("./mykernels.py:right", __file__)

TARGET = Target(
    name="int4_gemv",
    function=baseline,
    inputs={"v": "8192", "w": "28672x8192"},
    derive=derive,
    takes=("v", "packed", "scale"),
    rotate=("packed", "scale"),
    reference=right,
    flops=2 * 28672 * 8192,
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
