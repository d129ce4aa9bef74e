"""x.clone() of 4096x8192 bf16: bytes alone."""


from hotkernel_contract import Target


def clone(x):
    return x.clone()


TARGET = Target(name="clone", function=clone, inputs={"x": "4096x8192"}, dtype="bf16")
