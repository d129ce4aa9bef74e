"""A function whose answer lies in its input already: what is returned must be a copy of it."""

from hotkernel_contract import Target


def copying(x):
    return x.clone()


TARGET = Target(name="copying", function=copying, inputs={"x": "64x4096"}, dtype="fp32", device="cpu")
