"""The baseline of the target rmsnorm_backward and the whole contract it is judged by.

What is to be beaten: eager operations; two outputs.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:rmsnorm_backward", __file__)

TARGET = Target(
    name="rmsnorm_backward",
    function=baseline,
    inputs={"dy": "4096x8192", "x": "4096x8192", "w": "8192"},
    rotate=("dy", "x"),
    flops=11 * 4096 * 8192,  # an exponential or a root counted as one
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
