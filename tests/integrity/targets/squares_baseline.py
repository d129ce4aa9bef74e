"""A function that makes one number of many: to leave a part of them unread is worth as much as that part."""

from hotkernel_contract import Target


def squares(x):
    return (x * x).mean()


TARGET = Target(name="squares", function=squares, inputs={"x": "8000000"}, dtype="fp32", device="cpu", mixture="normal")
