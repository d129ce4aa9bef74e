"""The baseline of the target attention and the whole contract it is judged by.

What is to be beaten: the fastest backend of torch's scaled_dot_product_attention.
"""

from hotkernel_contract import Target, load_function

baseline = load_function("./mykernels.py:attention", __file__)
cudnn = load_function("./mykernels.py:cudnn", __file__)
flash = load_function("./mykernels.py:flash", __file__)
right = load_function("./mykernels.py:right", __file__)

TARGET = Target(
    name="attention",
    function=baseline,
    baselines={"cudnn": cudnn, "flash": flash},
    inputs={"q": "1x32x4096x128", "k": "1x32x4096x128", "v": "1x32x4096x128"},
    rotate=("q", "k", "v"),
    reference=right,
    mixture="normal",  # scores of scaled rows leave what fp32 can tell apart
    flops=2 * 2 * 32 * 128 * (4096 * 4097 // 2),
)

if __name__ == "__main__":
    TARGET.main(baseline, impl="baseline")
