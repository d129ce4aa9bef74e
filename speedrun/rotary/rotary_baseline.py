"""The baseline of the target rotary and the whole contract it is judged by.

What is to be beaten: eager operations in bf16, as in Llama's model code.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:rotary", __file__)

TARGET = Target(
    name="rotary",
    function=baseline,
    inputs={"q": "1x32x8192x128", "k": "1x8x8192x128", "cos": "8192x64", "sin": "8192x64"},
    rotate=("q", "k"),
    min_bytes=2 * 2 * 40 * 8192 * 128 + 2 * 2 * 8192 * 64,
    flops=3 * 40 * 8192 * 128,
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
