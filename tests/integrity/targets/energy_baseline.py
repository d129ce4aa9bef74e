"""A mean that hardly differs from drawing to drawing: without its `reduction`, a part of the numbers could be left unread."""

from hotkernel_contract import Target


def energy(x):
    return (x * x + 20).mean()


TARGET = Target(name="energy", function=energy, inputs={"x": "1000000"}, dtype="fp32", device="cpu", mixture="normal",
                reduction=1024)
