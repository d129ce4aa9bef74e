"""x + 1 of 64x1024 bf16: a launch and little else."""


from hotkernel_contract import Target


def add_one(x):
    return x + 1


TARGET = Target(name="add_one_small", function=add_one, inputs={"x": "64x1024"}, dtype="bf16")
