"""A long sum of products for each row, in fp32, that does not say how long it is."""

from hotkernel_contract import Target


def dots(x, y):
    return (x * y).sum(-1)


TARGET = Target(name="dots", function=dots, inputs={"x": "64x4096", "y": "64x4096"}, rotate=("x", "y"), dtype="fp32",
                device="cpu", mixture="normal")
